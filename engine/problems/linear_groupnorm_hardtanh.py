"""A linear layer, group norm in 16 groups, clipped to [-2, 2] (suite59 L2/30)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 1024, 8192, 8192


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)
        self.norm = nn.GroupNorm(16, features_out)

    def forward(self, x):
        return F.hardtanh(self.norm(self.linear(x)), -2.0, 2.0)


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
