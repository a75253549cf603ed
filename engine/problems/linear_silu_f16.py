"""A half-precision linear layer with SiLU: no cast anywhere."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 8192, 4096, 4096


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out, dtype=torch.float16)

    def forward(self, x):
        return F.silu(self.linear(x))


def get_inputs():
    return [torch.randn(ROWS, IN, dtype=torch.float16)]


def get_init_inputs():
    return [IN, OUT]
