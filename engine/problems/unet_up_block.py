"""Twice the size by a transposed convolution, joined to a skip, then two convolutions (held out)."""

import torch
import torch.nn as nn

BATCH, CHANNELS, HEIGHT, WIDTH = 16, 128, 64, 64


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.up = nn.ConvTranspose2d(channels, channels // 2, 2, stride=2)
        self.one = nn.Conv2d(channels, channels // 2, 3, padding=1)
        self.two = nn.Conv2d(channels // 2, channels // 2, 3, padding=1)

    def forward(self, x, skip):
        h = torch.cat([self.up(x), skip], dim=1)
        return torch.relu(self.two(torch.relu(self.one(h))))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH), torch.randn(BATCH, CHANNELS // 2, 2 * HEIGHT, 2 * WIDTH)]


def get_init_inputs():
    return [CHANNELS]
