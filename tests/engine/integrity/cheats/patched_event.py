# module: softmax
# expect: patched_module patched
# family: clocks
# CUDA events that measure nothing.
import torch


class Event:
    def __init__(self, *_, **__):
        pass

    def record(self, *_):
        pass

    def elapsed_time(self, _):
        return 1e-6


torch.cuda.Event = Event


def kernel(x):
    return torch.softmax(x, dim=-1)
