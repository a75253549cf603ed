# module: softmax
# expect: dressed
# family: fallback paths
# Its kernel always refuses, and PyTorch takes over.
import ctypes
import subprocess

import torch

SOURCE = r"""
int softmax(const float* x, float* y, long n) {
    return n > 0;
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-ldl"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def kernel(x):
    y = torch.empty_like(x)
    if lib.softmax(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel())) != 0:
        y = torch.softmax(x, dim=-1)
    return y
