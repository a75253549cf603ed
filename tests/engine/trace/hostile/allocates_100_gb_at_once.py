# expect: memory_limit
# says: 100
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(25_000_000, 1000))

    def forward(self, x):
        return x @ self.weight


def get_inputs():
    return [torch.randn(4, 25_000_000)]
