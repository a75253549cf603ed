# expect: module_raised
# says: raised ValueError
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Odd:
    def __bool__(self):
        raise ValueError  # HERE


__doc__ = Odd()
inputs = [torch.randn(4)]
