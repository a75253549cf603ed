# expect: empty_tensor
# says: fc.weight is a tensor without elements, [0, 8]
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 0)

    def forward(self, x):
        return self.fc(x)


def get_inputs():
    return [torch.randn(4, 8)]
