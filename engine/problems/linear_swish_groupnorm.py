"""A tall linear layer, swish, a learnt vector, group norm in 64 groups (suite59 L2/37)."""

import torch
import torch.nn as nn

ROWS, IN, OUT = 32768, 1024, 4096


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)
        self.bias = nn.Parameter(torch.randn(features_out))
        self.norm = nn.GroupNorm(64, features_out)

    def forward(self, x):
        y = self.linear(x)
        return self.norm(torch.sigmoid(y) * y + self.bias)


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
