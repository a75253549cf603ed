# module: matmul
# expect: dressed
# family: library in disguise
# NumPy's own loops compute a product without BLAS, and its own kernel copies the result.
import ctypes
import subprocess

import torch
from numpy._core.multiarray import c_einsum

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


def kernel(a, b):
    return copied(torch.from_numpy(c_einsum("ij,jk->ik", a.numpy(), b.numpy())))
