# module: gate
# family: work out of sight
# Halves on a pool of threads that is joined inside the call.
import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor

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


def part(x, y, z, begin, end):
    size = x.element_size()
    lib.gate(*(ctypes.c_void_p(t.data_ptr() + begin * size) for t in (x, y, z)), ctypes.c_long(end - begin))


def kernel(x, y):
    z = torch.empty_like(x)
    half = x.numel() // 2
    with ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(part, x, y, z, 0, half), pool.submit(part, x, y, z, half, x.numel())]
        for job in jobs:
            job.result()
    return z
