"""A 3x3 convolution with Mish applied twice (suite59 L2/4)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 64, 64, 128
HEIGHT, WIDTH = 256, 256


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)

    def forward(self, x):
        return F.mish(F.mish(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
