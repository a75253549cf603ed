"""Rotary positions as a product of complex numbers."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.qk = nn.Linear(64, 128)
        angles = torch.outer(torch.arange(16).float(), 10000 ** (-torch.arange(0, 64, 2) / 64))
        self.register_buffer("turn", torch.polar(torch.ones_like(angles), angles))

    def forward(self, x):
        q, k = self.qk(x).chunk(2, -1)
        q, k = (torch.view_as_complex(t.float().reshape(*t.shape[:-1], -1, 2)) * self.turn for t in (q, k))
        return torch.view_as_real(q).flatten(2) @ torch.view_as_real(k).flatten(2).transpose(1, 2)


def get_inputs():
    return [torch.randn(2, 16, 64)]
