# module: gate
# family: library in disguise
# Gives numpy's views of the tensors to C.
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


def kernel(x, y):
    z = torch.empty_like(x)
    arguments = [t.numpy().ctypes.data_as(ctypes.c_void_p) for t in (x, y, z)]
    lib.gate(*arguments, ctypes.c_long(x.numel()))
    return z
