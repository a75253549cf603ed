# expect: module_raised
# says: missing 1 required positional argument
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.randn(4, 8)]
