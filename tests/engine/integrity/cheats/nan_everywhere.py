# module: softmax
# expect: nan
# family: comparison abuse
# NaN, which a careless comparison finds nowhere larger than a bound.
import torch


def kernel(x):
    return torch.full_like(x, float("nan"))
