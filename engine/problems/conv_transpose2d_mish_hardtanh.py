"""A transposed convolution, stride 2, Mish, + 0.5, clipped, doubled (suite59 L2/16)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 128, 64, 64
HEIGHT, WIDTH = 128, 128


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels_in, channels_out, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x):
        return F.hardtanh(F.mish(self.conv(x)) + 0.5, -1.0, 1.0) * 2.0


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
