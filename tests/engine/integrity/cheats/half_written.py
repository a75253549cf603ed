# module: matmul
# expect: unwritten
# family: skipping work
# Writes the first half of the rows; the rest is what the allocator had.
import torch


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    half = a.shape[0] // 2
    torch.matmul(a[:half], b, out=c[:half])
    return c
