"""A linear layer with a low-rank update beside its weight (held out)."""

import torch
import torch.nn as nn

ROWS, IN, OUT, RANK = 8192, 4096, 4096, 64


class Model(nn.Module):
    def __init__(self, width, out, rank):
        super().__init__()
        self.base = nn.Linear(width, out)
        self.a, self.b = nn.Linear(width, rank, bias=False), nn.Linear(rank, out, bias=False)

    def forward(self, x):
        return self.base(x) + 0.5 * self.b(self.a(x))


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, OUT, RANK]
