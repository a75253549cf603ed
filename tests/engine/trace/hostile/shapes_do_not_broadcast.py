# expect: shape_mismatch
# says: must match
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x + torch.ones(3, 5)  # HERE


def get_inputs():
    return [torch.randn(4, 8)]
