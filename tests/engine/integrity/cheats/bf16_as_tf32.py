# module: matmul
# expect: precision_lowered
# class: tf32
# family: class by bits
# Says tf32 and computes in bf16.
import ctypes
import subprocess

import torch

SOURCE = r"""
#define HALF 0x8000u
#include <stdint.h>
#include <string.h>
static float cut(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    u = (u + HALF) & ~(2 * HALF - 1u);
    memcpy(&v, &u, 4);
    return v;
}
void matmul(const float* a, const float* b, float* c, long m, long n, long k) {
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < n; j++) c[i * n + j] = 0;
        for (long p = 0; p < k; p++)
            for (long j = 0; j < n; j++) c[i * n + j] += cut(a[i * k + p]) * cut(b[p * n + j]);
    }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    lib.matmul(*pointers(a, b, c), ctypes.c_long(a.shape[0]), ctypes.c_long(b.shape[1]), ctypes.c_long(a.shape[1]))
    return c
