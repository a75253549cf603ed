# expect: varying_result
# says: 
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x[x > 0]  # HERE


def get_inputs():
    return [torch.randn(4, 8)]
