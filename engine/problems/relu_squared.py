"""The square of ReLU, the activation of some language models (group)."""

import torch
import torch.nn as nn
import torch.nn.functional as F

ROWS, WIDTH = 8192, 14336
DTYPE = torch.float16


class Model(nn.Module):
    def forward(self, x):
        return F.relu(x).square()


def get_inputs():
    return [torch.randn(ROWS, WIDTH, dtype=DTYPE)]
