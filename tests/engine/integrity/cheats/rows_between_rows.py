# module: softmax
# expect: wrong_result
# family: skipping work
# Computes every other row, and the mean of its neighbours in between.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void softmax(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i += 2) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = expf(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
    for (long i = 1; i < m; i += 2)
        for (long j = 0; j < n; j++) y[i * n + j] = (y[(i - 1) * n + j] + y[(i + 1 < m ? i + 1 : i - 1) * n + j]) / 2;
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
