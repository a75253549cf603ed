# module: linear
# expect: input_written
# family: writing outside
# Rounds its weights in place, to save the work in the next call.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void linear_relu(const float* x, float* w, const float* b, float* y, long m, long n, long k) {
    for (long i = 0; i < n * k; i++) w[i] = rintf(w[i] * 16777216) / 16777216;
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float s = 0;
            for (long p = 0; p < k; p++) s += x[i * k + p] * w[j * k + p];
            s += b[j];
            y[i * n + j] = s > 0 ? s : 0;
        }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(x, w, b):
    y = torch.empty(x.shape[0], w.shape[0])
    lib.linear_relu(
        *pointers(x, w, b, y), ctypes.c_long(x.shape[0]), ctypes.c_long(w.shape[0]), ctypes.c_long(x.shape[1])
    )
    return y
