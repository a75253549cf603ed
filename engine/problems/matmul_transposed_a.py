"""The left side stored transposed (suite59 L1/16)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a.T @ b


def get_inputs():
    return [torch.randn(8192, 2048), torch.randn(8192, 4096)]


def get_init_inputs():
    return []
