# module: linear
# expect: late_change
# family: memo and stale results
# Packs the weights in the first call and never looks again.
import ctypes
import subprocess

import torch

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


packed = []


def kernel(x, w, b):
    if not packed:
        packed.extend((w.clone(), b.clone()))
    w, b = packed
    y = torch.empty(x.shape[0], w.shape[0])
    lib.linear_relu(
        *pointers(x, w, b, y), ctypes.c_long(x.shape[0]), ctypes.c_long(w.shape[0]), ctypes.c_long(x.shape[1])
    )
    return y
