# module: softmax
# expect: wrong_result
# family: skipping work
# One row, shown at every place.
import torch


def kernel(x):
    return torch.softmax(x[:1], dim=-1).expand(x.shape[0], -1)
