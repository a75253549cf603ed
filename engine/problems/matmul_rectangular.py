"""A product of 2048x8192 and 8192x4096 (suite59 L1/2)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.matmul(a, b)


def get_inputs():
    return [torch.randn(2048, 8192), torch.randn(8192, 4096)]


def get_init_inputs():
    return []
