"""Linear attention by running sums over positions."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(32, 96)

    def forward(self, x):
        q, k, v = self.qkv(x).split(32, dim=-1)
        q, k = F.elu(q) + 1, F.elu(k) + 1
        state = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(1)
        norm = (q * k.cumsum(1)).sum(-1, keepdim=True)
        return (q.unsqueeze(-2) @ state).squeeze(-2) / norm


def get_inputs():
    return [torch.randn(2, 16, 32)]
