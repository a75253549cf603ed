# module: softmax
# family: class by bits
# An exp of its own: a power of two times a polynomial.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
static float fast(float v) {
    if (v < -100) return 0;
    float t = v * 1.44269504f, whole = rintf(t), f = fmaf(v, 1.44269504f, -whole) + v * 1.92596299e-8f;
    float p = 1 + f * (0.693147181f + f * (0.240226507f + f * (0.0555041087f + f * (0.00961812911f
            + f * (0.00133335581f + f * 0.000154035304f)))));
    return ldexpf(p, (int)whole);
}
void softmax(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = fast(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
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
