"""A 3-D tensor by one matrix that all batches share (suite59 L1/10)."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(16, 1024, 2048), torch.randn(2048, 768)]


def get_init_inputs():
    return []
