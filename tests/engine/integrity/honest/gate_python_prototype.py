# module: gate
# family: library in disguise
# Its function is one of ctypes.PYFUNCTYPE.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = y[i] + x[i] / (1 + expf(-x[i]));
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so", "-lm"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


pointer = ctypes.c_void_p
gate = ctypes.PYFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_long)(("gate", own))


def kernel(x, y):
    z = torch.empty_like(x)
    gate(x.data_ptr(), y.data_ptr(), z.data_ptr(), z.numel())
    return z
