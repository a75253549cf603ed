"""A gated MLP: SiLU of one projection times another, then back (outside)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, FEATURES, HIDDEN = 8192, 2048, 5632


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
