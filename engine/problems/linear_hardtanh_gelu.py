"""A linear layer, halved, clipped to [-2, 2], GELU (suite59 L2/53)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 2048, 8192, 8192


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return F.gelu(F.hardtanh(self.linear(x) * 0.5, -2.0, 2.0))


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
