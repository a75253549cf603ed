"""A sort, a selection of the largest, and a gather by their places."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.score, self.value = nn.Linear(64, 1), nn.Linear(64, 64)

    def forward(self, x):
        best, place = self.score(x).squeeze(-1).topk(4, dim=-1)
        rows = self.value(x).gather(1, place.unsqueeze(-1).expand(-1, -1, 64))
        return rows * best.sigmoid().unsqueeze(-1), x.sort(dim=-1).values


def get_inputs():
    return [torch.randn(8, 16, 64)]
