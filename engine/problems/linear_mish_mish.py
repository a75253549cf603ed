"""A linear layer with Mish applied twice (suite59 L2/29)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 1024, 8192, 8192


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return F.mish(F.mish(self.linear(x)))


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
