# module: softmax
# expect: dressed
# family: library in disguise
# NumPy computes half of the result, and its own code adds it to itself.
import ctypes
import subprocess

import numpy as np
import torch

SOURCE = r"""
void twice(float* z, long n) { for (long i = 0; i < n; i++) z[i] += z[i]; }
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(x):
    rows = x.numpy()
    e = np.exp(rows - rows.max(1, keepdims=True))
    e /= e.sum(1, keepdims=True)
    e *= np.float32(0.5)
    own.twice(e.ctypes.data_as(ctypes.c_void_p), ctypes.c_long(e.size))
    return torch.from_numpy(e)
