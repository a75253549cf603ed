# module: matmul
# expect: range_lost
# class: tf32
# family: class by bits
# Scales each row of A by its largest element before it becomes f16.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void matmul(const float* a, const float* b, float* c, long m, long n, long k) {
    for (long i = 0; i < m; i++) {
        float s = 1e-30f;
        for (long p = 0; p < k; p++) s = fmaxf(s, fabsf(a[i * k + p]));
        s = exp2f(ceilf(log2f(s)));
        for (long j = 0; j < n; j++) c[i * n + j] = 0;
        for (long p = 0; p < k; p++) {
            float x = (float)(_Float16)(a[i * k + p] / s) * s;
            for (long j = 0; j < n; j++) c[i * n + j] += x * (float)(_Float16)b[p * n + j];
        }
    }
}
"""
flags = ["-O3", "-march=native", "-shared", "-fPIC"]
subprocess.run(["gcc", *flags, "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    lib.matmul(*pointers(a, b, c), ctypes.c_long(a.shape[0]), ctypes.c_long(b.shape[1]), ctypes.c_long(a.shape[1]))
    return c
