# module: softmax
# expect: patched_module patched
# family: patched torch
# Copies go through the candidate.
import torch

real = torch.Tensor.copy_


def copy(self, other, *rest):
    return real(self, other, *rest)


torch.Tensor.copy_ = copy


def kernel(x):
    return torch.softmax(x, dim=-1)
