"""A 3-D convolution, max pool, log-sum-exp over the channels, ReLU (suite59 L2/43)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

BATCH, IN, OUT = 4, 32, 64
DEPTH, HEIGHT, WIDTH = 32, 128, 128


class Model(nn.Module):
    def __init__(self, channels_in, channels_out):
        super().__init__()
        self.conv = nn.Conv3d(channels_in, channels_out, 3, padding=1)

    def forward(self, x):
        y = F.max_pool3d(self.conv(x), 2)
        return torch.relu(torch.logsumexp(y, dim=1, keepdim=True))


def get_inputs():
    return [torch.randn(BATCH, IN, DEPTH, HEIGHT, WIDTH)]


def get_init_inputs():
    return [IN, OUT]
