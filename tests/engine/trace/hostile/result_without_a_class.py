# expect: module_raised
# says: Odd.__class__ raised ValueError
import torch


class Odd:
    @property
    def __class__(self):
        raise ValueError  # HERE


class Model(torch.nn.Module):
    def forward(self, x):
        return Odd()


def get_inputs():
    return [torch.randn(4)]
