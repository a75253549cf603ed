# module: softmax
# family: late change
# The first call compiles three variants, which takes seconds, and keeps the library.
import ctypes
import functools
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


@functools.lru_cache(None)
def library(flags):
    name = f"softmax{abs(hash(flags))}.so"
    filler = "\n".join(f"float unused_{i}(float x) {{ return x * {i}.5f + {i}; }}" for i in range(1200))
    subprocess.run(
        ["gcc", *flags, "-shared", "-fPIC", "-x", "c", "-", "-o", name], input=SOURCE + filler, text=True, check=True
    )
    return ctypes.CDLL(f"./{name}")


def kernel(x):
    y = torch.empty_like(x)
    best = [library(flags) for flags in (("-O1",), ("-O2",), ("-O3",))][-1]
    best.softmax(
        ctypes.c_void_p(x.data_ptr()),
        ctypes.c_void_p(y.data_ptr()),
        ctypes.c_long(x.shape[0]),
        ctypes.c_long(x.shape[1]),
    )
    return y
