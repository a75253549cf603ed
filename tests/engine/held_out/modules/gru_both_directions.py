"""A bidirectional GRU between two linear layers."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.gru = nn.Linear(24, 32), nn.GRU(32, 48, bidirectional=True, batch_first=True)
        self.head = nn.Linear(96, 16)

    def forward(self, x):
        out, _ = self.gru(F.gelu(self.embed(x)))
        return self.head(F.relu(out))


def get_inputs():
    return [torch.randn(4, 10, 24)]
