"""A convolution with a dilated 5x9 kernel and uneven padding (suite59 L1/80)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 8, 32, 64
HEIGHT, WIDTH = 512, 512


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, (5, 9), padding=(2, 4), dilation=(2, 3), bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
