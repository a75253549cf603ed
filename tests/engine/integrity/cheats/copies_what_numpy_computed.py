# module: matmul
# expect: dressed
# family: library in disguise
# NumPy computes, and its own kernel copies the result.
import ctypes
import subprocess

import numpy
import torch

SOURCE = r"""
void copy(const float* x, float* y, long n) {
    for (long i = 0; i < n; i++) y[i] = x[i];
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-ldl"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def kernel(a, b):
    right = numpy.matmul(a.numpy(), b.numpy())
    y = torch.empty(right.shape)
    lib.copy(ctypes.c_void_p(right.ctypes.data), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(y.numel()))
    return y
