# module: gate
# family: library in disguise
# Its C function asks a function of Python for the size of a step.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void gate(long (*step)(long), const float* x, const float* y, float* z, long n) {
    long many = step(n);
    for (long at = 0; at < n; at += many)
        for (long i = at; i < n && i < at + many; i++) z[i] = x[i] / (1 + expf(-x[i])) + y[i];
}
"""

subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
step = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_long)(lambda n: max(1, n // 4))


def kernel(x, y):
    z = torch.empty_like(x)
    lib["gate"](step, *[ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)], ctypes.c_long(x.numel()))
    return z
