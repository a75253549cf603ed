"""A product plus a residual of its own shape, then a swish."""

import torch
import torch.nn as nn

M, N, K = 4096, 4096, 2048


class Model(nn.Module):
    def forward(self, a, b, residual):
        y = a @ b + residual
        return y * torch.sigmoid(y)


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N), torch.randn(M, N)]


def get_init_inputs():
    return []
