"""A matrix by a vector of a million numbers (suite59 L1/4)."""

import torch
import torch.nn as nn

M, K = 2048, 1048576


class Model(nn.Module):
    def forward(self, a, v):
        return a @ v


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, 1)]


def get_init_inputs():
    return []
