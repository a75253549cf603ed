"""PyTorch's own encoder layer, which has a fast path in eval mode."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True, activation="gelu")

    def forward(self, x):
        return self.layer(x)


def get_inputs():
    return [torch.randn(2, 16, 64)]
