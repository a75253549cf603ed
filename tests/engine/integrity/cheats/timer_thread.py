# module: softmax
# expect: threads late
# family: work out of sight
# A threading.Timer that fires after the call.
import threading

import torch


def kernel(x):
    y = torch.zeros_like(x)
    threading.Timer(0.005, lambda: y.copy_(torch.softmax(x, dim=-1))).start()
    return y
