"""A depthwise 3x3 convolution of 64 channels (suite59 L1/82)."""

import torch
import torch.nn as nn

BATCH, IN = 16, 64
HEIGHT, WIDTH = 512, 512


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, groups=channels, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN]
