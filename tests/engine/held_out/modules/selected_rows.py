"""The rows of a mask: their number depends on values."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(32, 32)

    def forward(self, x, chosen):
        return self.a(x[chosen])


def get_inputs():
    return [torch.randn(16, 32), torch.rand(16) > 0.5]
