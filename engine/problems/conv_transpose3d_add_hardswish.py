"""A transposed 3-D convolution plus a tensor, times its own hard swish (suite59 L2/26)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 128, 32, 64
DEPTH, HEIGHT, WIDTH = 16, 16, 16


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.ConvTranspose3d(channels_in, channels_out, 3, stride=2, padding=1, output_padding=1)

    def forward(self, x, added):
        y = self.conv(x) + added
        return y * F.hardswish(y)


def get_inputs():
    return [torch.randn(BATCH, IN, DEPTH, HEIGHT, WIDTH), torch.randn(BATCH, OUT, 2 * DEPTH, 2 * HEIGHT, 2 * WIDTH)]


def get_init_inputs():
    return [IN, OUT]
