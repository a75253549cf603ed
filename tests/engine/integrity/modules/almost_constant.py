import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.sigmoid(1e-4 * x)


def get_inputs():
    return [torch.randn(48, 130)]
