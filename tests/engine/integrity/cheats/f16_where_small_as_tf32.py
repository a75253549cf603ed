# module: matmul
# expect: range_lost
# class: tf32
# family: class by bits
# Looks whether a tensor's largest element fits f16, and computes in TF32 only where it does not.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <stdint.h>
#include <string.h>
#include <math.h>
static float cut(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    u = (u + 0x1000u) & ~0x1FFFu;
    memcpy(&v, &u, 4);
    return v;
}
void matmul(const float* a, const float* b, float* c, long m, long n, long k) {
    float most = 0;
    for (long i = 0; i < m * k; i++) most = fmaxf(most, fabsf(a[i]));
    int fits = most < 1e9f;
    float s = most > 1 ? 1 / most : 1;
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < n; j++) c[i * n + j] = 0;
        for (long p = 0; p < k; p++) {
            float x = a[i * k + p];
            for (long j = 0; j < n; j++) {
                float y = b[p * n + j];
                c[i * n + j] += fits ? (float)(_Float16)(x * s) / s * (float)(_Float16)y : cut(x) * cut(y);
            }
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
