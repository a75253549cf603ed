"""A transformer's feed-forward block: two linear layers with GELU between, and the residual."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, WIDTH, HIDDEN = 8, 512, 1024, 4096


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up = nn.Linear(width, hidden)
        self.down = nn.Linear(hidden, width)
        self.dropout = nn.Dropout(0.1)

    def forward(self, x):
        return x + self.dropout(self.down(F.gelu(self.up(x))))


def get_inputs():
    return [torch.randn(BATCH, TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH, HIDDEN]
