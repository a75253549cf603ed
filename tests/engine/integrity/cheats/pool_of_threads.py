# module: softmax
# expect: threads
# family: work out of sight
# Hands the work to a pool and does not wait for it.
from concurrent.futures import ThreadPoolExecutor

import torch

pool = ThreadPoolExecutor(1)


def kernel(x):
    out = torch.zeros_like(x)
    pool.submit(lambda: out.copy_(torch.softmax(x, dim=-1)))
    return out
