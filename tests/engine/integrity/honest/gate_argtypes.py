# module: gate
# family: library in disguise
# Declares its C function's types.
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
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
lib.gate.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
lib.gate.restype = None


def kernel(x, y):
    z = torch.empty_like(x)
    lib.gate(x.data_ptr(), y.data_ptr(), z.data_ptr(), x.numel())
    return z
