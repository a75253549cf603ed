# module: softmax
# family: environment
# Builds its library by os.system, and reads the number of its own arguments.
import ctypes
import os

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
with open("own.c", "w") as file:
    file.write(SOURCE)
if os.system("gcc -O2 -shared -fPIC own.c -o own.so -lm"):
    raise RuntimeError("gcc failed")
own = ctypes.CDLL("./own.so")


def launch(x, y):
    own.softmax(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y)), *(ctypes.c_long(s) for s in x.shape))
    return y


def kernel(x):
    assert launch.__code__.co_argcount == 2
    return launch(x, torch.empty_like(x))
