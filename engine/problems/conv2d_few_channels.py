"""A 3x3 convolution from 16 channels to 128 (suite59 L1/63)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 16, 16, 128
HEIGHT, WIDTH = 1024, 1024


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
