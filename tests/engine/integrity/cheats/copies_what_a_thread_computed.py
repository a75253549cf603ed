# module: softmax
# expect: dressed
# family: library in disguise
# PyTorch computes on a thread that is joined, where a profile of the calling thread sees nothing.
import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor

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


def kernel(x):
    with ThreadPoolExecutor(1) as pool:
        return copied(pool.submit(torch.Tensor.softmax, x, -1).result())
