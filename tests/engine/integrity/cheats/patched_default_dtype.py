# module: softmax
# expect: patched_module patched
# family: patched torch
# Everybody's tensors become half precision.
import torch

torch.set_default_dtype(torch.float16)


def kernel(x):
    return torch.softmax(x, dim=-1)
