# module: softmax
# expect: wrong_result
# family: skipping work
# Leaves out what is far from the maximum.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void softmax(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = x[i * n + j] - top > -3 ? expf(x[i * n + j] - top) : 0;
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(x):
    y = torch.empty_like(x)
    lib.softmax(*pointers(x, y), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
    return y
