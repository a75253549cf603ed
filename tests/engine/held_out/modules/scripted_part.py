"""A submodule that TorchScript compiled."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(64, 64), torch.jit.script(nn.Linear(64, 32))

    def forward(self, x):
        return self.second(F.relu(self.first(x)))


def get_inputs():
    return [torch.randn(32, 64)]
