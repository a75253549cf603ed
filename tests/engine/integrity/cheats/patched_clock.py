# module: softmax
# expect: patched_module patched
# family: clocks
# Stops the clock.
import time

import torch

time.perf_counter = lambda: 0.0


def kernel(x):
    return torch.softmax(x, dim=-1)
