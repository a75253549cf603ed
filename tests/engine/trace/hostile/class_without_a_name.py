# expect: module_raised
# says: Meta.__name__ raised ValueError
import torch


class Meta(type):
    @property
    def __name__(self):
        raise ValueError  # HERE


class Odd(metaclass=Meta):
    pass


class Model(torch.nn.Module):
    def forward(self, x):
        return Odd()


def get_inputs():
    return [torch.randn(4)]
