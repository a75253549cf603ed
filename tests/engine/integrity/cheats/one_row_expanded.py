# module: softmax
# expect: wrong_result
# family: comparison abuse
# One row, shown as all rows.
import torch


def kernel(x):
    return torch.softmax(x[:1], dim=-1).expand(x.shape)
