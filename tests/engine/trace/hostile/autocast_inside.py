# expect: not_covered
# says: uses autocast, which the tracer does not follow
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(8, 8)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.fc(x)  # HERE
        return y


def get_inputs():
    return [torch.randn(4, 8)]
