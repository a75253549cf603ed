"""Two 3x3 convolutions with batch norm in inference, and the residual (outside)."""

import torch
import torch.nn as nn

BATCH, IN = 64, 128
HEIGHT, WIDTH = 56, 56


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)

    def forward(self, x):
        y = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(y)) + x)


def get_inputs():
    return [torch.randn(BATCH, IN, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN]
