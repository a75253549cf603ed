"""Results in a dictionary, submodules in a ModuleDict."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(64, 128)
        self.heads = nn.ModuleDict({"boxes": nn.Linear(128, 8), "classes": nn.Linear(128, 32)})

    def forward(self, x):
        y = F.relu(self.body(x))
        return {name: head(y) for name, head in self.heads.items()} | {"features": y}


def get_inputs():
    return [torch.randn(64, 64)]
