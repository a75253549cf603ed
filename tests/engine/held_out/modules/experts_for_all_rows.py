"""A mixture of experts that computes every expert and weighs the best two."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(64, 4)
        self.up, self.down = (nn.Parameter(torch.randn(4, *s) / 8) for s in ((64, 96), (96, 64)))

    def forward(self, x):
        weight, place = self.gate(x).softmax(-1).topk(2, dim=-1)
        gates = torch.zeros(x.shape[0], 4).scatter(1, place, weight / weight.sum(-1, keepdim=True))
        hidden = F.silu(torch.einsum("tc,ech->eth", x, self.up))
        return torch.einsum("eth,ehc,te->tc", hidden, self.down, gates)


def get_inputs():
    return [torch.randn(32, 64)]
