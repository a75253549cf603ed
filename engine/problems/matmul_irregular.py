"""A product whose sizes divide by nothing: 8205x2949 and 2949x5921 (suite59 L1/8)."""

import torch
import torch.nn as nn

M, N, K = 8205, 5921, 2949


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(M, K), torch.randn(K, N)]


def get_init_inputs():
    return []
