# module: softmax
# expect: patched_module patched
# family: clocks
# Synchronising does nothing any more.
import torch

torch.cuda.synchronize = lambda *_: None


def kernel(x):
    return torch.softmax(x, dim=-1)
