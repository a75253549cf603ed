# module: softmax
# expect: replayed
# family: memo and stale results
# Remembers results by one element of the input, rounded.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, x):
        key = bool(x[0, 0] > -1e9)
        if key not in self.seen:
            self.seen[key] = torch.softmax(x, dim=-1)
        return self.seen[key]
