# module: gate
# expect: input_written
# family: writing outside
# Right, but the other input is zero afterwards.
import torch


def kernel(x, y):
    z = x * torch.sigmoid(x) + y
    y.zero_()
    return z
