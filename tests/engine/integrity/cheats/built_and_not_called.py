# module: softmax
# expect: dressed
# family: library in disguise
# Builds its kernel, and calls PyTorch.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void softmax(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i++) {
        float top = x[i * n], sum = 0;
        for (long j = 1; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = expf(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")
entry = lib.softmax


def kernel(x):
    return torch.softmax(x, dim=-1)
