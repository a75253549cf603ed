"""A transposed 3-D convolution of cubes, 48 channels (suite59 L1/61)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 8, 48, 48
DEPTH, HEIGHT, WIDTH = 64, 64, 64


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels_in, channels_out, 3, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
