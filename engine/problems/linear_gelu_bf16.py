"""A bfloat16 linear layer with the tanh form of GELU."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 4096, 4096, 11008


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out, dtype=torch.bfloat16)

    def forward(self, x):
        return F.gelu(self.linear(x), approximate="tanh")


def get_inputs():
    return [torch.randn(ROWS, IN, dtype=torch.bfloat16)]


def get_init_inputs():
    return [IN, OUT]
