# module: linear
# expect: precision_lowered
# family: class by bits
# The weight in two bf16 parts, the input whole: still sixteen bits.
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
void linear_relu(const float* x, const float* w, const float* b, float* y, long m, long n, long k) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float s = 0;
            for (long p = 0; p < k; p++) {
                float v = w[j * k + p];
                s += bf(x[i * k + p]) * (bf(v) + bf(v - bf(v))) + bf(x[i * k + p] - bf(x[i * k + p])) * bf(v);
            }
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
