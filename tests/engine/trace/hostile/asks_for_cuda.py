# expect: asks_for_cuda
# says: leave `.cuda()` and `device="cuda"` out
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8).cuda()  # HERE

    def forward(self, x):
        return self.fc(x)


def get_inputs():
    return [torch.randn(4, 8)]
