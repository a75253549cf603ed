# module: softmax
# expect: patched_module patched
# family: patched torch
# The reference's routine becomes another.
import torch

torch.matmul = torch.mm


def kernel(x):
    return torch.softmax(x, dim=-1)
