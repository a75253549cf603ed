"""nn.MultiheadAttention across two sequences, with its weights."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.attend = nn.MultiheadAttention(64, 4, batch_first=True, kdim=32, vdim=32)

    def forward(self, x, memory):
        out, weights = self.attend(x, memory, memory)
        return x + out, weights


def get_inputs():
    return [torch.randn(2, 16, 64), torch.randn(2, 24, 32)]
