"""A plain RNN that begins with a given state."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn, self.head = nn.RNN(32, 64, nonlinearity="relu"), nn.Linear(64, 64)

    def forward(self, x, h):
        out, last = self.rnn(x, h)
        return self.head(out).sigmoid(), last


def get_inputs():
    return [torch.randn(6, 8, 32), torch.randn(1, 8, 64)]
