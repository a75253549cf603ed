"""A 3x3 convolution, times tanh of its softplus, batch norm in inference (suite59 L2/52)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 64, 64, 128
HEIGHT, WIDTH = 128, 128


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3)
        self.norm = nn.BatchNorm2d(channels_out)

    def forward(self, x):
        y = self.conv(x)
        return self.norm(y * torch.tanh(F.softplus(y)))


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
