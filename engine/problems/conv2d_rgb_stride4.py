"""Colour images to 96 channels: kernel 11, stride 4 (suite59 L1/50)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 256, 3, 96
HEIGHT, WIDTH = 224, 224


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 11, stride=4, padding=2)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
