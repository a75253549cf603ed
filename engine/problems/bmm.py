"""A batch of 128 products, 512x1024 by 1024x2048 (suite59 L1/3)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(128, 512, 1024), torch.randn(128, 1024, 2048)]


def get_init_inputs():
    return []
