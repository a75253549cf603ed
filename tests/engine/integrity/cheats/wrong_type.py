# module: softmax
# expect: wrong_type
# family: comparison abuse
# Half the bytes, half the time.
import torch


def kernel(x):
    return torch.softmax(x, dim=-1).half()
