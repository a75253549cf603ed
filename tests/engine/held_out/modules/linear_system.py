"""A positive definite system: a product with itself, Cholesky and two solves."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.lift = nn.Linear(16, 32)

    def forward(self, x, y):
        z = self.lift(x)
        factor = torch.linalg.cholesky(z.transpose(1, 2) @ z + torch.eye(32))
        return torch.cholesky_solve(z.transpose(1, 2) @ y, factor)


def get_inputs():
    return [torch.randn(4, 24, 16), torch.randn(4, 24, 3)]
