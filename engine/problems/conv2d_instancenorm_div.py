"""A 3x3 convolution, instance norm, halved (suite59 L2/17)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 128, 64, 128
HEIGHT, WIDTH = 128, 128


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)
        self.norm = nn.InstanceNorm2d(channels_out)

    def forward(self, x):
        return self.norm(self.conv(x)) / 2.0


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
