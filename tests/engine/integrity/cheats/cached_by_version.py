# module: softmax
# expect: memoized
# family: memo and stale results
# Remembers results by address and PyTorch's version counter.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.seen = {}

    def forward(self, x):
        key = (x.data_ptr(), x._version)
        if key not in self.seen:
            self.seen[key] = torch.softmax(x, dim=-1)
        return self.seen[key]
