"""A linear layer, batch norm in inference, GELU, ReLU (suite59 L2/41)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 16384, 4096, 4096


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)
        self.norm = nn.BatchNorm1d(features_out)

    def forward(self, x):
        return torch.relu(F.gelu(self.norm(self.linear(x))))


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
