"""Weights as a direction and a length, by parametrization and by the older hook."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.utils.parametrizations.weight_norm(nn.Linear(64, 96))
        self.b = nn.utils.weight_norm(nn.Conv1d(96, 32, 3, padding=1))

    def forward(self, x):
        return F.leaky_relu(self.b(F.gelu(self.a(x)).transpose(1, 2)), 0.2)


def get_inputs():
    return [torch.randn(4, 16, 64)]
