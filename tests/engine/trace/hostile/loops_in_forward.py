# expect: time_limit
# says: did not end within
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        while True:  # HERE
            pass  # HERE


def get_inputs():
    return [torch.randn(4, 8)]
