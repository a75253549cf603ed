"""Two linear layers with sigmoid between, then log-sum-exp of each row (suite59 L2/45)."""

import torch
import torch.nn as nn

ROWS, IN, HIDDEN, OUT = 16384, 2048, 4096, 1024


class Model(nn.Module):
    def __init__(self, features_in, hidden, features_out):
        super().__init__()
        self.up = nn.Linear(features_in, hidden)
        self.down = nn.Linear(hidden, features_out)

    def forward(self, x):
        return torch.logsumexp(self.down(torch.sigmoid(self.up(x))), dim=1)


def get_inputs():
    return [torch.randn(ROWS, IN)]


def get_init_inputs():
    return [IN, HIDDEN, OUT]
