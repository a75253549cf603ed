# module: softmax
# expect: replayed
# family: memo and stale results
# Every third call gets the result of the one before.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.last = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls % 3 or self.last.shape != x.shape:
            self.last = torch.softmax(x, dim=-1)
        return self.last.clone()
