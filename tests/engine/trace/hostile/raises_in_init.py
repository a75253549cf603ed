# expect: module_raised
# says: raised KeyError
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.size = {}["size"]  # HERE

    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(4, 8)]
