# module: gate
# family: work out of sight
# Compiles in a pool at the top, and works in a pool of threads in the call; both end by `with`.
import ctypes
import subprocess
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = y[i] + x[i] / (1 + expf(-x[i]));
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so", "-lm"]
with ThreadPoolExecutor(1) as builders:
    build = builders.submit(subprocess.run, command, input=SOURCE, text=True, check=True)
build.result()
own = ctypes.CDLL("./own.so")


def part(x, y, z, first, last):
    at = [ctypes.c_void_p(t.data_ptr() + 4 * first) for t in (x, y, z)]
    own.gate(*at, ctypes.c_long(last - first))


def kernel(x, y):
    z = torch.empty_like(x)
    middle, end = z.numel() // 2, z.numel()
    with ThreadPool(2) as pool:
        pool.starmap(part, [(x, y, z, 0, middle), (x, y, z, middle, end)])
    return z
