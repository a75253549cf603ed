# module: softmax
# expect: patched
# family: clocks
# An event that is complete before it is.
import torch

type.__setattr__(torch.cuda.Event, "query", lambda self: True)
type.__setattr__(torch.cuda.Event, "synchronize", lambda self: None)


def kernel(x):
    return torch.softmax(x, dim=-1)
