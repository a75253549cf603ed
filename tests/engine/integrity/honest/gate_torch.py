# module: gate
# verdict: library only
# family: library in disguise
# No kernel, and it does not say that there is one.
import torch


def kernel(x, y):
    return torch.addcmul(y, x, torch.sigmoid(x))
