# module: softmax
# verdict: library only
# PyTorch's own kernel, and it does not say otherwise.
import torch


def kernel(x):
    return torch.nn.functional.softmax(x, dim=-1)
