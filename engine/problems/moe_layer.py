"""A mixture of experts, every expert on every row, weighted by a softmax router (outside)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, FEATURES, HIDDEN, EXPERTS = 2048, 1024, 2048, 4


class Model(nn.Module):
    def __init__(self, width, hidden, experts):
        super().__init__()
        self.router = nn.Linear(width, experts)
        self.up = nn.ModuleList(nn.Linear(width, hidden) for _ in range(experts))
        self.down = nn.ModuleList(nn.Linear(hidden, width) for _ in range(experts))

    def forward(self, x):
        weights = torch.softmax(self.router(x), dim=-1)
        y = 0.0
        for i, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            y = y + weights[:, i : i + 1] * down(F.gelu(up(x)))
        return y


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN, EXPERTS]
