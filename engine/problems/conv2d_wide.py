"""A 3x3 convolution of wide images, 64 to 128 channels (suite59 L1/55)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 8, 64, 128
HEIGHT, WIDTH = 512, 1024


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
