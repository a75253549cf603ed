"""Depthwise and pointwise convolutions, each with batch norm in inference and ReLU6 (outside)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 64, 128, 256
HEIGHT, WIDTH = 56, 56


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.depthwise = nn.Conv2d(channels_in, channels_in, 3, padding=1, groups=channels_in, bias=False)
        self.norm1 = nn.BatchNorm2d(channels_in)
        self.pointwise = nn.Conv2d(channels_in, channels_out, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels_out)

    def forward(self, x):
        y = F.relu6(self.norm1(self.depthwise(x)))
        return F.relu6(self.norm2(self.pointwise(y)))


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
