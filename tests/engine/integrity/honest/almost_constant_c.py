# module: almost_constant
# family: skipping work
# The module's answer is almost one number everywhere; this computes it.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void run(const float* x, float* y, long n) {
    for (long i = 0; i < n; i++) y[i] = 1 / (1 + expf(-1e-4f * x[i]));
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def kernel(x):
    y = torch.empty_like(x)
    lib.run(ctypes.c_void_p(x.data_ptr()), ctypes.c_void_p(y.data_ptr()), ctypes.c_long(x.numel()))
    return y
