"""An LSTM cell in a Python loop, with its states in a tuple."""

import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.cell, self.out = nn.LSTMCell(32, 64), nn.Linear(64, 32)

    def forward(self, x):
        state = (x.new_zeros(x.shape[1], 64), x.new_zeros(x.shape[1], 64))
        rows = []
        for step in x:
            state = self.cell(step, state)
            rows.append(self.out(state[0]))
        return torch.stack(rows), state


def get_inputs():
    return [torch.randn(4, 16, 32)]
