"""The right side stored transposed (suite59 L1/17)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b.T


def get_inputs():
    return [torch.randn(2048, 8192), torch.randn(4096, 8192)]


def get_init_inputs():
    return []
