# module: linear
# family: class by bits
# Adds by halves, as PyTorch does.
import ctypes
import subprocess

import torch

SOURCE = r"""
static float sum(const float* x, const float* w, long k) {
    if (k <= 4) {
        float s = 0;
        for (long p = 0; p < k; p++) s += x[p] * w[p];
        return s;
    }
    return sum(x, w, k / 2) + sum(x + k / 2, w + k / 2, k - k / 2);
}
void linear_relu(const float* x, const float* w, const float* b, float* y, long m, long n, long k) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float s = sum(x + i * k, w + j * k, k) + b[j];
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
