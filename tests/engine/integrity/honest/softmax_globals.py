# module: softmax
# family: patched torch
# Chooses its C function by name among the globals of the file.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void rows_short(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i++) {
        float top = x[i * n], sum = 0;
        for (long j = 1; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = expf(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
}
void rows_long(const float* x, float* y, long m, long n) { rows_short(x, y, m, n); }
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
rows_short, rows_long = lib.rows_short, lib.rows_long


def kernel(x):
    y = torch.empty_like(x)
    chosen = globals()["rows_short" if x.shape[1] < 1024 else "rows_long"]
    chosen(
        ctypes.c_void_p(x.data_ptr()),
        ctypes.c_void_p(y.data_ptr()),
        ctypes.c_long(x.shape[0]),
        ctypes.c_long(x.shape[1]),
    )
    return y
