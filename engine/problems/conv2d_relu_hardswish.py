"""A 3x3 convolution from 8 channels, ReLU, then a hard swish written out (suite59 L2/57)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 128, 8, 64
HEIGHT, WIDTH = 128, 128


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)

    def forward(self, x):
        y = torch.relu(self.conv(x))
        return y * torch.clamp((y + 3.0) / 6.0, 0.0, 1.0)


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
