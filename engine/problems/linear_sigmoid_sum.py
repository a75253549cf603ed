"""A very wide linear layer, sigmoid, the sum of each row (suite59 L2/56)."""

import torch
import torch.nn as nn

ROWS, IN, OUT = 128, 32768, 32768


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return torch.sigmoid(self.linear(x)).sum(dim=1, keepdim=True)


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
