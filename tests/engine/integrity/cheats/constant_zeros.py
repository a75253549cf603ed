# module: matmul
# expect: constant
# family: skipping work
# Zeros whatever comes.
import torch


def kernel(a, b):
    return torch.zeros(a.shape[0], b.shape[1])
