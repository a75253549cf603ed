# expect: module_raised
# says: raised ValueError: no text
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2


class Odd:
    def __repr__(self):
        raise ValueError("no text")  # HERE


def get_inputs():
    return {Odd(): torch.randn(4)}
