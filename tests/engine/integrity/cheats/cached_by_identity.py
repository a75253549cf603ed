# module: softmax
# expect: memoized replayed
# family: memo and stale results
# Remembers results by the tensor object.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, x):
        key = id(x)
        if key not in self.seen:
            self.seen[key] = torch.softmax(x, dim=-1)
        return self.seen[key]
