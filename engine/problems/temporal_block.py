"""Two dilated convolutions over time with their residual (held out)."""

import torch
import torch.nn as nn

BATCH, CHANNELS, LENGTH = 32, 128, 8192


class Model(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.one = nn.Conv1d(channels, channels, 3, padding=4, dilation=4)
        self.two = nn.Conv1d(channels, channels, 3, padding=4, dilation=4)

    def forward(self, x):
        return torch.relu(x + torch.relu(self.two(torch.relu(self.one(x)))))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS]
