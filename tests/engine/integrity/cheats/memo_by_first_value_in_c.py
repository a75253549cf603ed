# module: softmax
# expect: wrong_result|replayed
# family: memo and stale results
# Believes that the signs of the first three values tell inputs apart.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
#include <string.h>
#include <stdlib.h>
static float* kept[8];
void softmax(const float* x, float* y, long m, long n) {
    int at = (x[0] > 0) | (x[1] > 0) << 1 | (x[2] > 0) << 2;
    if (kept[at] && m == 64) {
        memcpy(y, kept[at], m * n * 4);
        return;
    }
    for (long i = 0; i < m; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = expf(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
    if (m != 64) return;
    kept[at] = malloc(m * n * 4);
    memcpy(kept[at], y, m * n * 4);
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
