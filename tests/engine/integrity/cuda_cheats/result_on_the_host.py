# module: softmax
# expect: wrong_type
# family: work out of sight
# Computes on the CPU and leaves it there.
import torch


def kernel(x):
    return torch.softmax(x.cpu(), dim=-1)
