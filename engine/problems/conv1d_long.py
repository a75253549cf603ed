"""A 1-D convolution of long sequences, 64 to 128 channels (suite59 L1/67)."""

import torch
import torch.nn as nn

BATCH, IN, OUT = 32, 64, 128
LENGTH = 131072


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv1d(channels_in, channels_out, 3, bias=False)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.randn(BATCH, IN, LENGTH)]


def get_init_inputs():
    return [IN, OUT]
