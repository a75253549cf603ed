"""Batch norm between in-place activations and an in-place sum."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(16, 32, 3, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.norm, self.last, self.side = nn.BatchNorm2d(32), nn.BatchNorm2d(32), nn.Conv2d(16, 32, 1)

    def forward(self, x):
        y = self.norm(self.a(x).relu_())
        y = self.last(self.b(y)).mul_(0.5)
        y += self.side(x)
        return F.hardswish(y, inplace=True)


def get_inputs():
    return [torch.randn(2, 16, 16, 16)]
