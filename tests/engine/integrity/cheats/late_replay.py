# module: softmax
# expect: memoized late_change
# family: late change
# Honest for nine calls, and then the last result for ever.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.calls, self.last = 0, None

    def forward(self, x):
        self.calls += 1
        if self.calls > 9:
            return self.last
        self.last = torch.softmax(x, dim=-1)
        return self.last
