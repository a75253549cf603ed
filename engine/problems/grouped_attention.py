"""Attention of 16 query heads on 4 heads of keys and values (held out)."""

import torch
import torch.nn as nn

BATCH, TOKENS, FEATURES, HEADS, SHARED = 4, 2048, 1024, 16, 4


class Model(nn.Module):
    def __init__(self, width, heads, shared):
        super().__init__()
        self.heads, self.shared = heads, shared
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, width * shared // heads, bias=False)
        self.v = nn.Linear(width, width * shared // heads, bias=False)
        self.out = nn.Linear(width, width, bias=False)

    def split(self, x, heads):
        return x.view(x.shape[0], x.shape[1], heads, -1).transpose(1, 2)

    def forward(self, x):
        many = self.heads // self.shared
        q = self.split(self.q(x), self.heads)
        k = self.split(self.k(x), self.shared).repeat_interleave(many, dim=1)
        v = self.split(self.v(x), self.shared).repeat_interleave(many, dim=1)
        a = torch.softmax(q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5, dim=-1) @ v
        return self.out(a.transpose(1, 2).reshape(x.shape))


def get_inputs():
    return [torch.randn(BATCH, TOKENS, FEATURES)]


def get_init_inputs():
    return [FEATURES, HEADS, SHARED]
