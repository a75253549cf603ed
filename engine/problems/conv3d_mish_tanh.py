"""A 3-D convolution, Mish, tanh (suite59 L2/47)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 16, 32, 64
DEPTH, HEIGHT, WIDTH = 32, 64, 64


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, 3)

    def forward(self, x):
        return torch.tanh(F.mish(self.conv(x)))


def get_inputs():
    return [torch.randn(BATCH, IN, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
