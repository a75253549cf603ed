"""A linear layer divided by 10, then GELU (suite59 L2/86)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 1024, 8192, 8192


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return F.gelu(self.linear(x) / 10.0)


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
