"""A bilinear layer between two embeddings."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.both = nn.Linear(32, 16), nn.Bilinear(16, 24, 8)

    def forward(self, x, y):
        return torch.tanh(self.both(F.relu(self.a(x)), y))


def get_inputs():
    return [torch.randn(32, 32), torch.randn(32, 24)]
