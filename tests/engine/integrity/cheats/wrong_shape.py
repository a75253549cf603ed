# module: softmax
# expect: wrong_shape
# family: comparison abuse
# One row, to be broadcast.
import torch


def kernel(x):
    return torch.softmax(x[:1], dim=-1)
