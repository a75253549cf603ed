"""Numbers to buckets by their size, and an embedding of the buckets."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("edges", torch.linspace(-2, 2, 15))
        self.embed, self.out = nn.Embedding(16, 32), nn.Linear(32, 16)

    def forward(self, x):
        return self.out(self.embed(torch.bucketize(x, self.edges)).sum(1))


def get_inputs():
    return [torch.randn(32, 8)]
