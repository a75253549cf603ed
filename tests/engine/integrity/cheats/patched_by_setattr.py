# module: softmax
# expect: patched_module patched
# family: patched torch
# The same by setattr.
import torch

setattr(torch, "equal", lambda *_: True)


def kernel(x):
    return torch.softmax(x, dim=-1)
