"""A 3x3 convolution, minus 0.5, hard swish, max pool, Mish (suite59 L2/35)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 128, 64, 128
HEIGHT, WIDTH = 128, 128


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)

    def forward(self, x):
        return F.mish(F.max_pool2d(F.hardswish(self.conv(x) - 0.5), 2))


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
