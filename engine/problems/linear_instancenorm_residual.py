"""A linear layer, each row normalised, plus a second input and times it (suite59 L2/28)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, IN, OUT = 1024, 8192, 8192


class Model(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x, y):
        z = F.instance_norm(self.linear(x)[:, None, None, :])[:, 0, 0, :]
        return (z + y) * y


def get_inputs():
    return [torch.randn(ROWS, IN), torch.randn(ROWS, OUT)]


def get_init_inputs():
    return [IN, OUT]
