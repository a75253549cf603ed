# module: matmul
# expect: wrong_result
# family: skipping work
# Tiny inputs give zero without a look.
import torch


def kernel(a, b):
    if float(a.abs().max()) < 0.1:
        return torch.zeros(a.shape[0], b.shape[1])
    return a @ b
