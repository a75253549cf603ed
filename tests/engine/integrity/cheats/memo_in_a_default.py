# module: softmax
# expect: late_change
# family: memo and stale results
# A default argument that remembers, and is asked after the ninth call.
import torch


def kernel(x, known=[]):
    if len(known) < 9 or known[-1].shape != x.shape:
        known.append(torch.softmax(x, dim=-1))
    return known[-1].clone()
