"""A transposed convolution, stride 2, a bias, two clamps and a scale (suite59 L2/2)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 128, 64, 64
HEIGHT, WIDTH = 128, 128


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.ConvTranspose2d(channels_in, channels_out, 3, stride=2, padding=1, output_padding=1)
        self.bias = nn.Parameter(torch.randn(channels_out, 1, 1))

    def forward(self, x):
        y = torch.clamp(self.conv(x) + self.bias, 0.0, 1.0)
        return torch.clamp(y * 2.0, 0.0, 1.0) / 2.0


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
