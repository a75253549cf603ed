# expect: bad_inputs
# says: missing a required argument: 'y'. Give one input for each argument.
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return x + y


def get_inputs():
    return [torch.randn(4, 8)]
