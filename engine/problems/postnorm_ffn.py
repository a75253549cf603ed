"""A feed-forward layer with its residual normalised after it, as BERT has it (held out)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, TOKENS, FEATURES, HIDDEN = 32, 512, 768, 3072


class Model(nn.Module):
    def __init__(self, width, hidden):
        super().__init__()
        self.up, self.down = nn.Linear(width, hidden), nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + self.down(F.gelu(self.up(x))))


def get_inputs():
    return [torch.randn(BATCH, TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HIDDEN]
