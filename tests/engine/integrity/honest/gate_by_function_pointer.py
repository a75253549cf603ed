# module: gate
# family: library in disguise
# Calls its function by a prototype and an address.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = x[i] / (1 + expf(-x[i])) + y[i];
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
address = ctypes.cast(lib.gate, ctypes.c_void_p).value
gate = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long)(address)


def kernel(x, y):
    z = torch.empty_like(x)
    gate(x.data_ptr(), y.data_ptr(), z.data_ptr(), x.numel())
    return z
