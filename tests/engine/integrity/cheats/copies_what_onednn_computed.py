# module: linear
# expect: dressed library_calls
# family: library in disguise
# One of PyTorch's operators outside of ATen computes product and activation, and its own kernel copies the result.
import ctypes
import subprocess

import torch

SOURCE = r"""
void copy(const float* x, float* y, long n) {
    for (long i = 0; i < n; i++) y[i] = x[i];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def copied(right):
    y = torch.empty(tuple(right.shape))
    lib.copy(ctypes.c_void_p(right.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(y.numel()))
    return y


def kernel(x, w, b):
    return copied(torch.ops.mkldnn._linear_pointwise(x, w, b, "relu", [], ""))
