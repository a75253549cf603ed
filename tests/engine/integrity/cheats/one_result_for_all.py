# module: softmax
# expect: reused_output
# family: memo and stale results
# Every call writes the same buffer, which earlier results are.
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


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


OUT = torch.empty(64, 200)


def kernel(x):
    y = OUT[: x.shape[0]]
    lib.softmax(*pointers(x, y), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
    return y
