# module: softmax
# expect: late_change
# family: late change
# After fourteen calls the result of the call before, as a copy.
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def __init__(self):
        super().__init__()
        self.results = []

    def forward(self, x):
        now = torch.softmax(x, dim=-1)
        self.results.append(now)
        late = len(self.results) > 14 and self.results[-2].shape == x.shape
        return (self.results[-2] if late else now).clone()
