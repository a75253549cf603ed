"""A depthwise 3x3 convolution, then a pointwise one, 64 to 128 channels (suite59 L1/86)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 16, 64, 128
HEIGHT, WIDTH = 512, 512


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.depthwise = nn.Conv2d(channels_in, channels_in, 3, padding=1, groups=channels_in, bias=False)
        self.pointwise = nn.Conv2d(channels_in, channels_out, 1, bias=False)

    def forward(self, x):
        return self.pointwise(self.depthwise(x))


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
