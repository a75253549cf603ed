# expect: not_a_tensor
# says: returns nothing
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):  # HERE
        y = x * 2


def get_inputs():
    return [torch.randn(4, 8)]
