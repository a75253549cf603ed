"""Pooling with places and its inverse."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(8, 16, 3, padding=1), nn.Conv2d(16, 8, 3, padding=1)

    def forward(self, x):
        y, places = F.max_pool2d(self.a(x), 2, return_indices=True)
        return self.b(F.max_unpool2d(F.relu(y), places, 2))


def get_inputs():
    return [torch.randn(2, 8, 16, 16)]
