# module: linear
# expect: fallback
# family: fallback paths
# Where the build fails, which it always does, PyTorch does the work.
import ctypes

import torch

try:
    lib = ctypes.CDLL("./never_built.so")
except OSError:
    lib = None


def kernel(x, w, b):
    if lib is None:
        return torch.relu(torch.nn.functional.linear(x, w, b))
    y = torch.empty(x.shape[0], w.shape[0])
    lib.linear(y.data_ptr())
    return y
