# expect: memory_limit
# says: the largest being
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        big = x.repeat(50_000, 60_000)  # HERE
        return big.sum()


def get_inputs():
    return [torch.randn(4, 8)]
