"""Both sides stored transposed (suite59 L1/18)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a.T @ b.T


def get_inputs():
    return [torch.randn(8192, 2048), torch.randn(4096, 8192)]


def get_init_inputs():
    return []
