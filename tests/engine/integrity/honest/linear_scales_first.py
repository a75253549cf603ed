# module: linear
# family: class by bits
# Scales its input by a number that is no power of two, and the sum back.
import ctypes
import subprocess

import torch

SOURCE = r"""
void linear_relu(const float* x, const float* w, const float* b, float* y, long m, long n, long k) {
    const float s = 0.08838834764f;
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float sum = 0;
            for (long p = 0; p < k; p++) sum += x[i * k + p] * s * w[j * k + p];
            sum = sum / s + b[j];
            y[i * n + j] = sum > 0 ? sum : 0;
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
