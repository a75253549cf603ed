# module: softmax
# expect: unwritten
# Hopes that freed memory still holds the reference's result.
import torch


def kernel(x):
    return torch.empty_like(x)
