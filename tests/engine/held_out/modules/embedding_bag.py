"""Bags of embeddings beside dense features."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(1000, 64, mode="mean")
        self.dense, self.top = nn.Linear(16, 64), nn.Linear(128, 1)

    def forward(self, ids, offsets, x):
        both = torch.cat([self.bag(ids, offsets), F.relu(self.dense(x))], dim=-1)
        return torch.sigmoid(self.top(both))


def get_inputs():
    return [torch.randint(0, 1000, (128,)), torch.arange(0, 128, 4), torch.randn(32, 16)]
