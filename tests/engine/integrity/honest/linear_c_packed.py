# module: linear
# family: memo and stale results
# Packs the weight's transpose anew in every call.
import ctypes
import subprocess

import torch

SOURCE = r"""
void linear_relu(const float* x, const float* wt, const float* b, float* y, long m, long n, long k) {
    for (long i = 0; i < m; i++) {
        float* row = y + i * n;
        for (long j = 0; j < n; j++) row[j] = b[j];
        for (long p = 0; p < k; p++)
            for (long j = 0; j < n; j++) row[j] += x[i * k + p] * wt[p * n + j];
        for (long j = 0; j < n; j++) row[j] = row[j] > 0 ? row[j] : 0;
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
    packed = w.t().contiguous()
    y = torch.empty(x.shape[0], w.shape[0])
    lib.linear_relu(
        *pointers(x, packed, b, y), ctypes.c_long(x.shape[0]), ctypes.c_long(w.shape[0]), ctypes.c_long(x.shape[1])
    )
    return y
