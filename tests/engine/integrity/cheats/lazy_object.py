# module: softmax
# expect: wrong_type
# family: lazy results
# No tensor at all, but something that becomes one.
import torch


class Lazy:
    def __init__(self, x):
        self.x = x

    def __array__(self, dtype=None, copy=None):
        return torch.softmax(self.x, dim=-1).numpy()


def kernel(x):
    return Lazy(x)
