# module: softmax
# expect: patched_module patched
# family: patched torch
# Another torch.Tensor.view.
import torch

real = torch.Tensor.view
torch.Tensor.view = lambda self, *shape: real(self, *shape)


def kernel(x):
    return torch.softmax(x, dim=-1)
