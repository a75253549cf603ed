"""A module in bfloat16 with a softmax in float32."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(64, 128).bfloat16(), nn.Linear(128, 64).bfloat16()

    def forward(self, x):
        y = self.a(x)
        p = torch.softmax(y.float(), dim=-1).to(torch.bfloat16)
        return self.b(p * y)


def get_inputs():
    return [torch.randn(32, 64, dtype=torch.bfloat16)]
