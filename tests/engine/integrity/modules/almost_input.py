import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return x + 1e-5 * torch.tanh(x)


def get_inputs():
    return [torch.randn(48, 130)]
