# module: softmax
# expect: harness_access patched
# family: clocks
# Replaces perf_counter in the dictionary of its module.
import time

import torch

real = time.perf_counter
vars(time)["perf_counter"] = lambda: real() / 100


def kernel(x):
    return torch.softmax(x, dim=-1)
