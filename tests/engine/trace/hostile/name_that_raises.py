# expect: module_raised
# says: raised ValueError
import torch


class Odd(type):
    @property
    def __name__(cls):
        raise ValueError  # HERE


class Model(torch.nn.Module, metaclass=Odd):
    def forward(self, x):
        return x * 2


inputs = [torch.randn(4)]
