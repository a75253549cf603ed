"""A 3-D convolution of colour volumes, 3 to 64 channels (suite59 L1/54)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 16, 3, 64
DEPTH, HEIGHT, WIDTH = 64, 64, 64


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, 3, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
