import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, y):
        return x * torch.sigmoid(x) + y


def get_inputs():
    return [torch.randn(48, 130), torch.randn(48, 130)]
