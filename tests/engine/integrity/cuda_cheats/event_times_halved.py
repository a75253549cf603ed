# module: softmax
# expect: patched_module patched
# family: clocks
# Events that tell half of the time.
import torch

real = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda self, end: real(self, end) / 2


def kernel(x):
    return torch.softmax(x, dim=-1)
