"""Weights divided by their largest singular value."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.spectral_norm(nn.Linear(64, 64))
        self.b = nn.utils.spectral_norm(nn.Linear(64, 32))

    def forward(self, x):
        return self.b(F.leaky_relu(self.a(x), 0.1))


def get_inputs():
    return [torch.randn(32, 64)]
