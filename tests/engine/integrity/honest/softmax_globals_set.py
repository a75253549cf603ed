# module: softmax
# family: reaching the harness
# Sets a constant of its own by its name, when it is loaded.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void softmax(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i++) {
        float top = -INFINITY, sum = 0;
        for (long j = 0; j < n; j++) top = fmaxf(top, x[i * n + j]);
        for (long j = 0; j < n; j++) sum += y[i * n + j] = expf(x[i * n + j] - top);
        for (long j = 0; j < n; j++) y[i * n + j] /= sum;
    }
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so", "-lm"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")
for setting in ("TILE", "UNROLL"):
    globals()[setting] = 64


def launch(x, y):
    own.softmax(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y)), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))


def kernel(x):
    y = torch.empty_like(x)
    assert globals()["TILE"] == UNROLL
    launch(x, y)
    return y
