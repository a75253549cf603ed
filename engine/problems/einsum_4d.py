"""A 4-D tensor contracted with a matrix along its last axis (suite59 L1/11)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.einsum("bijl,lk->bijk", a, b)


def get_inputs():
    return [torch.randn(8, 256, 512, 256), torch.randn(256, 768)]


def get_init_inputs():
    return []
