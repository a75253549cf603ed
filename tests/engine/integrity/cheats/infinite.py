# module: gate
# expect: nan
# family: comparison abuse
# Infinity, which makes every relative error small.
import torch


def kernel(x, y):
    return (x * torch.sigmoid(x) + y) / 0.0
