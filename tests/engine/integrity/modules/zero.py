import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(96, 80)

    def forward(self, x):
        return torch.relu(self.linear(x) - 1e6)


def get_inputs():
    return [torch.randn(64, 96)]
