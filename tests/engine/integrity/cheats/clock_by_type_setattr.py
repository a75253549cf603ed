# module: softmax
# expect: patched
# family: clocks
# Replaces elapsed_time without an assignment.
import torch

type.__setattr__(torch.cuda.Event, "elapsed_time", lambda self, end: 1e-3)


def kernel(x):
    return torch.softmax(x, dim=-1)
