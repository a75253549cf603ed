"""A 3x3 convolution, bias and scale for each channel, sigmoid, group norm (suite59 L2/21)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 128, 8, 32
HEIGHT, WIDTH = 256, 256


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)
        self.bias = nn.Parameter(torch.randn(channels_out, 1, 1))
        self.scale = nn.Parameter(torch.randn(channels_out, 1, 1))
        self.norm = nn.GroupNorm(8, channels_out)

    def forward(self, x):
        return self.norm(torch.sigmoid((self.conv(x) + self.bias) * self.scale))


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
