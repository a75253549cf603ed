# module: gate
# expect: wrong_shape
# family: comparison abuse
# A shape that a careless comparison would broadcast.
import torch


def kernel(x, y):
    return (x * torch.sigmoid(x) + y).mean(0, keepdim=True)
