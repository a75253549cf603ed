"""A 3-D convolution, batch norm in inference, ReLU, average pool, and the mean of each channel (outside)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 8, 32, 64
DEPTH, HEIGHT, WIDTH = 32, 64, 64


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, 3, padding=1)
        self.norm = nn.BatchNorm3d(channels_out)

    def forward(self, x):
        y = F.avg_pool3d(torch.relu(self.norm(self.conv(x))), 2)
        return y.mean(dim=(2, 3, 4))


def get_inputs():
    return [torch.randn(BATCH, IN, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
