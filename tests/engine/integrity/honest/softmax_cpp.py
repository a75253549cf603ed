# module: softmax
# family: class by bits
# C++ by g++.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <algorithm>
#include <cmath>
extern "C" void softmax(const float* x, float* y, long m, long n) {
    for (long i = 0; i < m; i++, x += n, y += n) {
        float top = *std::max_element(x, x + n), sum = 0;
        std::transform(x, x + n, y, [&](float v) { return std::exp(v - top); });
        for (long j = 0; j < n; j++) sum += y[j];
        std::transform(y, y + n, y, [&](float v) { return v / sum; });
    }
}
"""
subprocess.run(
    ["g++", "-O2", "-shared", "-fPIC", "-x", "c++", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def pointers(*tensors):
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


def kernel(x):
    y = torch.empty_like(x)
    lib.softmax(*pointers(x, y), ctypes.c_long(x.shape[0]), ctypes.c_long(x.shape[1]))
    return y
