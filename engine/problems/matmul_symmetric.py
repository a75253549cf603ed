"""A product of two symmetric matrices (suite59 L1/13)."""

import torch
import torch.nn as nn

N = 4096


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    a, b = torch.randn(N, N), torch.randn(N, N)
    return [(a + a.T) / 2, (b + b.T) / 2]


def get_init_inputs():
    return []
