"""Queries, keys and values of one input by one linear layer, laid out as heads (outside)."""

import torch
import torch.nn as nn

BATCH, TOKENS, FEATURES, HEADS = 8, 1024, 2048, 16


class Model(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)

    def forward(self, x):
        y = self.qkv(x).view(x.shape[0], x.shape[1], 3, self.heads, -1)
        return y.permute(2, 0, 3, 1, 4)


def get_inputs():
    return [torch.randn(BATCH, TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HEADS]
