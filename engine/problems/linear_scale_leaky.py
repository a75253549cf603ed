"""A linear layer 8192 to 8192, doubled, then leaky ReLU (suite59 L2/12)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 1024, 8192, 8192


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return F.leaky_relu(self.linear(x) * 2.0, 0.1)


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
