# expect: bad_inputs
# says: get_inputs gives input 1 the shape [0, 256]: axis 0 has size 0
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(256, 256)

    def forward(self, x):
        return self.fc(x)


def get_inputs():  # HERE
    return [torch.randn(0, 256)]
