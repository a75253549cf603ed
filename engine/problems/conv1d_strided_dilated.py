"""A 1-D convolution with stride 3 and dilation 4 (suite59 L1/76)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 64, 64, 128
LENGTH = 524280


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv1d(channels_in, channels_out, 3, stride=3, dilation=4, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN, LENGTH)]


def get_init_inputs():
    return [IN, OUT]
