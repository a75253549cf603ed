# module: softmax
# verdict: library only
# family: library in disguise
# numpy's routines.
import numpy as np
import torch


def kernel(x):
    v = x.numpy()
    e = np.exp(v - v.max(axis=1, keepdims=True))
    return torch.from_numpy(e / e.sum(axis=1, keepdims=True))
