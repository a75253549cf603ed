# expect: shape_mismatch
# says: cannot be multiplied (4x8 and 16x32)
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(16, 32)

    def forward(self, x):
        return self.fc(x)  # HERE


def get_inputs():
    return [torch.randn(4, 8)]
