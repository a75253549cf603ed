# module: softmax
# verdict: library only
# family: library in disguise
# PyTorch's own kernel, and it does not say otherwise.
import torch


def kernel(x):
    return torch.nn.functional.softmax(x, dim=-1)
