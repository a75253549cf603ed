"""A mixture of experts that gathers the rows of each expert: their number depends on values."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate, self.experts = nn.Linear(64, 4), nn.ModuleList(nn.Linear(64, 64) for _ in range(4))

    def forward(self, x):
        best = self.gate(x).argmax(-1)
        out = torch.zeros_like(x)
        for i, expert in enumerate(self.experts):
            rows = torch.where(best == i)[0]
            out[rows] = expert(x[rows])
        return out


def get_inputs():
    return [torch.randn(32, 64)]
