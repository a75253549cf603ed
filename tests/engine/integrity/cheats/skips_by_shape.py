# module: matmul
# expect: wrong_result
# family: skipping work
# Computes for the one shape that it was shown.
import torch


def kernel(a, b):
    if a.shape != (64, 128):
        return torch.zeros(a.shape[0], b.shape[1])
    return a @ b
