"""Experts whose weights lie in one tensor each, applied by einsum, and mixed by their shares of the best two."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, width=32, experts=4):
        super().__init__()
        self.gate = nn.Linear(width, experts, bias=False)
        self.up = nn.Parameter(torch.randn(experts, width, 64) * 0.1)
        self.down = nn.Parameter(torch.randn(experts, 64, width) * 0.1)

    def forward(self, x):
        b, t, d = x.shape
        rows = x.reshape(-1, d)
        shares, best = torch.topk(F.softmax(self.gate(rows), dim=-1), 2, dim=-1)
        h = F.silu(torch.einsum("nd,edh->neh", rows, self.up))
        y = torch.einsum("neh,ehd->ned", h, self.down)
        picked = torch.gather(y, 1, best[..., None].expand(-1, -1, d))
        return (picked * (shares / shares.sum(-1, keepdim=True))[..., None]).sum(1).view(b, t, d)


def get_inputs():
    return [torch.randn(2, 16, 32)]
