"""Three batched matrices multiplied in a chain (outside)."""

import torch
import torch.nn as nn

BATCH, SIZE = 64, 1024


class Model(nn.Module):
    def forward(self, a, b, c):
        return torch.bmm(torch.bmm(a, b), c)


def get_inputs():
    return [torch.randn(BATCH, SIZE, SIZE) for _ in range(3)]


def get_init_inputs():
    return []
