# module: matmul
# expect: dressed
# family: library in disguise
# An operator by torch.ops, and a kernel that multiplies by one.
import ctypes
import subprocess

import torch

SOURCE = r"""
void copy(const float* x, float* y, long n) {
    for (long i = 0; i < n; i++) y[i] = x[i] * 1.0f;
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-ldl"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def kernel(a, b):
    right = torch.ops.aten.mm.default(a, b)
    y = torch.empty_like(right)
    lib.copy(ctypes.c_void_p(right.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(y.numel()))
    return y
