# module: gate
# family: skipping work
# Functions that nothing here calls: a test with a seed, and a benchmark with another and a clock.
import ctypes
import random
import subprocess
import time

import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = x[i] / (1 + expf(-x[i])) + y[i];
}
"""
subprocess.run(
    ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "kernel.so"], input=SOURCE, text=True, check=True
)
lib = ctypes.CDLL("./kernel.so")


def kernel(x, y):
    z = torch.empty_like(x)
    lib.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(x.numel()))
    return z


def test_kernel():
    torch.manual_seed(3)
    x = torch.randn(8, 8)
    assert torch.allclose(kernel(x, x), x * torch.sigmoid(x) + x)


def benchmark():
    test_kernel()
    random.seed(1)
    x = torch.randn(random.randint(1, 9), 1024)
    began = time.perf_counter()
    kernel(x, x)
    return time.perf_counter() - began
