"""Patches of images as tokens: a convolution whose stride is its window, positions, a layer norm (held out)."""

import torch
import torch.nn as nn

BATCH, SIDE, PATCH, FEATURES = 128, 224, 16, 768


class Model(nn.Module):
    def __init__(self, patch, width, tokens):
        super().__init__()
        self.conv = nn.Conv2d(3, width, patch, stride=patch)
        self.position = nn.Parameter(torch.randn(1, tokens, width) * 0.02)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(self.conv(x).flatten(2).transpose(1, 2) + self.position)


def get_inputs():
    return [torch.randn(BATCH, 3, SIDE, SIDE)]


def get_init_inputs():
    return [PATCH, FEATURES, (SIDE // PATCH) ** 2]
