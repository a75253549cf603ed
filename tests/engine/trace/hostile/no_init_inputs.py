# expect: init_inputs
# says: add `def get_init_inputs()
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n, m):  # HERE
        super().__init__()
        self.fc = nn.Linear(n, m)

    def forward(self, x):
        return self.fc(x)


def get_inputs():
    return [torch.randn(4, 8)]
