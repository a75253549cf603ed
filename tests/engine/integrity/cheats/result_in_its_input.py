# module: gate
# expect: input_written
# family: writing outside
# Writes the result over its input too.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void gate(float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) x[i] = z[i] = x[i] / (1 + expf(-x[i])) + y[i];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(x, y):
    z = torch.empty_like(x)
    lib.gate(*pointers(x, y, z), ctypes.c_long(x.numel()))
    return z
