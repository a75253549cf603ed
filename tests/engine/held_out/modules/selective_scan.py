"""A short scan of a state in a Python loop, as in a state-space block."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Parameter(-torch.rand(32, 8))
        self.proj, self.delta, self.out = nn.Linear(32, 16), nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x):
        d, (b, c) = F.softplus(self.delta(x)), self.proj(x).chunk(2, -1)
        h, rows = x.new_zeros(x.shape[0], 32, 8), []
        for t in range(x.shape[1]):
            h = torch.exp(d[:, t, :, None] * self.a) * h + d[:, t, :, None] * b[:, t, None] * x[:, t, :, None]
            rows.append((h * c[:, t, None]).sum(-1))
        return self.out(torch.stack(rows, 1) * F.silu(x))


def get_inputs():
    return [torch.randn(2, 6, 32)]
