# module: linear
# expect: fallback
# family: fallback paths
# The kernel's name is wrong, and PyTorch does the work.
import ctypes
import subprocess

import torch
import torch.nn.functional as F

SOURCE = r"""
void linear_relu(const float* x, const float* w, const float* b, float* y, long m, long n, long k) {
    for (long i = 0; i < m; i++)
        for (long j = 0; j < n; j++) {
            float s = 0;
            for (long p = 0; p < k; p++) s += x[i * k + p] * w[j * k + p];
            s += b[j];
            y[i * n + j] = s > 0 ? s : 0;
        }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(x, w, b):
    y = torch.empty(x.shape[0], w.shape[0])
    try:
        lib.linear_relu_fast(*pointers(x, w, b, y))
    except Exception:
        return F.relu(F.linear(x, w, b))
    return y
