# module: softmax
# expect: unsteady
# family: faults
# Adds noise that no tolerance sees.
import torch


def kernel(x):
    return torch.softmax(x, dim=-1) * (1 + 3e-7 * torch.rand_like(x))
