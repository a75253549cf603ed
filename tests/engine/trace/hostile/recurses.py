# expect: module_raised
# says: RecursionError
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return self.forward(x)  # HERE


def get_inputs():
    return [torch.randn(4, 8)]
