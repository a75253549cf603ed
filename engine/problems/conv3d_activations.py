"""A 3-D convolution, four activations in a row, then a bias (suite59 L2/7)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 64, 8, 32
DEPTH, HEIGHT, WIDTH = 32, 64, 64


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, 3)
        self.bias = nn.Parameter(torch.randn(channels_out, 1, 1, 1))

    def forward(self, x):
        y = F.leaky_relu(torch.relu(self.conv(x)), 0.01)
        return torch.sigmoid(F.gelu(y)) + self.bias


def get_inputs():
    return [torch.randn(BATCH, IN, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
