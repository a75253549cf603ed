# module: gate
# family: library in disguise
# Opens its library with cffi.
import subprocess

import cffi
import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = y[i] + x[i] / (1 + expf(-x[i]));
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so", "-lm"]
subprocess.run(command, input=SOURCE, text=True, check=True)


ffi = cffi.FFI()
ffi.cdef("void gate(const float* x, const float* y, float* z, long n);")
opened = ffi.dlopen("./own.so")


def kernel(x, y):
    z = torch.empty_like(x)
    opened.gate(*(ffi.cast("float*", t.data_ptr()) for t in (x, y, z)), z.numel())
    return z
