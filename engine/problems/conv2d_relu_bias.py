"""A 3x3 convolution, ReLU, then a bias for each channel (suite59 L2/1)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 128, 64, 128
HEIGHT, WIDTH = 128, 128


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)
        self.bias = nn.Parameter(torch.randn(channels_out, 1, 1))

    def forward(self, x):
        return torch.relu(self.conv(x)) + self.bias


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
