# module: softmax
# expect: unwritten
# family: skipping work
# Allocates a result and leaves it alone: stale memory may be right.
import torch


def kernel(x):
    return torch.empty_like(x)
