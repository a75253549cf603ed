"""A linear layer, ReLU, divided by 2 (suite59 L2/63)."""

import torch
import torch.nn as nn

ROWS, IN, OUT = 1024, 8192, 8192


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return torch.relu(self.linear(x)) / 2.0


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
