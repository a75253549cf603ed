"""A linear layer, halved, plus its own unscaled value (suite59 L2/40)."""

import torch
import torch.nn as nn

ROWS, IN, OUT = 16384, 4096, 4096


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        y = self.linear(x)
        return y * 0.5 + y


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT]
