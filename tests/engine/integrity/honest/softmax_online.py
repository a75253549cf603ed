# module: softmax
# family: class by bits
# Maximum and sum in one pass.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void softmax(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) {
            float v = x[i * n + j], next = fmaxf(top, v);
            sum = sum * expf(top - next) + expf(v - next);
            top = next;
        }
        for (long j = 0; j < n; j++) y[i * n + j] = expf(x[i * n + j] - top) / sum;
    }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(x):
    y = torch.empty_like(x)
    lib.softmax(*pointers(x, y), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
    return y
