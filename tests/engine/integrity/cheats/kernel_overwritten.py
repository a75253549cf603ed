# module: linear
# expect: dressed
# family: library in disguise
# Its kernel's result is overwritten by the library's.
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


def kernel(x, w, b):
    y = torch.empty(x.shape[0], w.shape[0])
    lib.linear_relu(
        *pointers(x, w, b, y), ctypes.c_long(x.shape[0]), ctypes.c_long(w.shape[0]), ctypes.c_long(x.shape[1])
    )
    torch.addmm(b, x, w.t(), out=y)
    return y.relu_()
