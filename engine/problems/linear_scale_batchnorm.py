"""A linear layer, scaled by a learnt vector, then batch norm in inference (suite59 L2/33)."""

import torch
import torch.nn as nn

ROWS, IN, OUT = 1024, 8192, 8192


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)
        self.scale = nn.Parameter(torch.randn(features_out))
        self.norm = nn.BatchNorm1d(features_out)

    def forward(self, x):
        return self.norm(self.linear(x) * self.scale)


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
