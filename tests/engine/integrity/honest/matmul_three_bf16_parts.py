# module: matmul
# family: class by bits
# Three bf16 parts and their six products: as many bits as f32.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <stdint.h>
#include <string.h>
static float bf(float v) {
    uint32_t u;
    memcpy(&u, &v, 4);
    u = (u + 0x7FFFu + (u >> 16 & 1)) & 0xFFFF0000u;
    memcpy(&v, &u, 4);
    return v;
}
void matmul(const float* a, const float* b, float* c, long m, long n, long k) {
    for (long i = 0; i < m; i++) {
        for (long j = 0; j < n; j++) c[i * n + j] = 0;
        for (long p = 0; p < k; p++) {
            float x = a[i * k + p], x0 = bf(x), x1 = bf(x - x0), x2 = bf(x - x0 - x1);
            for (long j = 0; j < n; j++) {
                float y = b[p * n + j], y0 = bf(y), y1 = bf(y - y0), y2 = bf(y - y0 - y1);
                c[i * n + j] += x0 * y0 + (x0 * y1 + x1 * y0) + (x1 * y1 + x0 * y2 + x2 * y0);
            }
        }
    }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so", "-lm"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(a, b):
    c = torch.empty(a.shape[0], b.shape[1])
    lib.matmul(*pointers(a, b, c), ctypes.c_long(a.shape[0]), ctypes.c_long(b.shape[1]), ctypes.c_long(a.shape[1]))
    return c
