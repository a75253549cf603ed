"""A refinement that goes on until its result is good enough."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.step = nn.Linear(32, 32)

    def forward(self, x):
        while x.norm() > 1:
            x = torch.tanh(self.step(x)) / 2
        return x


def get_inputs():
    return [torch.randn(16, 32)]
