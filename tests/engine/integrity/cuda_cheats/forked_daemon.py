# module: softmax
# expect: threads
# family: work out of sight
# A daemon that copies the result in, from another process.
import os

import torch

started = []


def kernel(x):
    if not started:
        started.append(os.fork())
        if started[0] == 0:
            while True:
                os.sched_yield()
    return torch.softmax(x, dim=-1)
