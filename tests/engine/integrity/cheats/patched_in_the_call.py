# module: softmax
# expect: patched_module patched
# family: patched torch
# Patches when it is first called, not when it is loaded.
import time

import torch


def kernel(x):
    time.time = lambda: 0.0
    return torch.softmax(x, dim=-1)
