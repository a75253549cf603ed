"""A small result of a very long sum: K is half a million (suite59 L1/6)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(256, 524288), torch.randn(524288, 256)]


def get_init_inputs():
    return []
