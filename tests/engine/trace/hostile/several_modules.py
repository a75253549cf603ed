# expect: several_models
# says: (Up, Down): name the one to optimise `Model`
import torch
import torch.nn as nn


class Up(nn.Module):
    def forward(self, x):
        return x * 2


class Down(nn.Module):  # HERE
    def forward(self, x):
        return x / 2


def get_inputs():
    return [torch.randn(4, 8)]
