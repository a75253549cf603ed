# module: softmax
# family: memo and stale results
# A workspace is kept from call to call; results are not.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void softmax(const float* x, float* y, float* work, long m, long n) {
    for (long i = 0; i < m; i++) {
        float top = x[i * n], sum = 0;
        for (long j = 1; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += work[j] = expf(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] = work[j] / sum;
    }
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


workspaces = {}


def kernel(x):
    n = x.shape[1]
    if n not in workspaces:
        workspaces[n] = torch.empty(n)
    y = torch.empty_like(x)
    lib.softmax(*pointers(x, y, workspaces[n]), ctypes.c_long(x.shape[0]), ctypes.c_long(n))
    return y
