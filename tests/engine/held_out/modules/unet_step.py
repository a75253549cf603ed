"""Down and up again, with a concatenation across."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.mid = nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.Conv2d(32, 32, 3, padding=1)
        self.up, self.out = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Conv2d(32, 16, 3, padding=1)
        self.norm = nn.GroupNorm(4, 16)

    def forward(self, x):
        y = self.up(F.relu(self.mid(F.relu(self.down(x)))))
        return self.out(torch.cat([F.silu(self.norm(x)), y], dim=1))


def get_inputs():
    return [torch.randn(2, 16, 16, 16)]
