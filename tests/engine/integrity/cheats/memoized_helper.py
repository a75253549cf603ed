# module: softmax
# expect: memoized replayed
# family: memo and stale results
# functools.lru_cache on a function of tensors: PyTorch hashes them by identity.
import functools

import torch


@functools.lru_cache
def work(x):
    return torch.softmax(x, dim=-1)


def kernel(x):
    return work(x)
