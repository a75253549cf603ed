# module: softmax
# expect: lazy
# family: lazy results
# A view whose sign is turned when somebody reads it.
import torch


def kernel(x):
    return torch._neg_view(torch.neg(torch.softmax(x, dim=-1)))
