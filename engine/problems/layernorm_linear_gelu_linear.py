"""Layer norm, a linear layer, GELU, a linear layer (outside)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, FEATURES, HIDDEN = 8192, 1024, 4096


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(self.norm(x))))


def get_inputs():
    return [torch.randn(ROWS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
