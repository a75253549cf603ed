# expect: time_limit
# says: did not end within
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.n = sum(range(10**13))  # HERE

    def forward(self, x):
        return x * 2


def get_inputs():
    return [torch.randn(4, 8)]
