"""An MLP over tokens, each feature by itself, with its residual (held out)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, FEATURES, HIDDEN = 64, 256, 1024, 1024


class Model(nn.Module):
    def __init__(self, tokens, width, hidden):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(tokens, hidden), nn.Linear(hidden, tokens)

    def forward(self, x):
        h = self.norm(x).transpose(1, 2)
        return x + self.down(F.gelu(self.up(h))).transpose(1, 2)


def get_inputs():
    return [torch.randn(BATCH, TOKENS, FEATURES)]


def get_init_inputs():
    return [TOKENS, FEATURES, HIDDEN]
