"""Weights rounded to a few levels, by a detached difference."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(64, 64) / 8)

    def forward(self, x):
        scale = self.weight.abs().amax(1, keepdim=True) / 7
        levels = (self.weight / scale).round().clamp(-8, 7) * scale
        weight = self.weight + (levels - self.weight).detach()
        return F.linear(x, weight).relu()


def get_inputs():
    return [torch.randn(32, 64)]
