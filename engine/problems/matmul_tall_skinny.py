"""A tall matrix by a flat one: K is 32 (suite59 L1/9)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(32768, 32), torch.randn(32, 32768)]


def get_init_inputs():
    return []
