# module: linear
# verdict: library only
# family: library in disguise
# PyTorch's own linear layer.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self, features_in, features_out):
        super().__init__()
        self.linear = nn.Linear(features_in, features_out)

    def forward(self, x):
        return torch.clamp_min(self.linear(x), 0)
