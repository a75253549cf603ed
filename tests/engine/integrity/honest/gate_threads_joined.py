# module: gate
# family: work out of sight
# Threads of its own, each joined before it returns.
import ctypes
import subprocess
import threading

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


def rows(x, y, z, first, last):
    lib.gate(
        ctypes.c_void_p(x[first:last].data_ptr()),
        ctypes.c_void_p(y[first:last].data_ptr()),
        ctypes.c_void_p(z[first:last].data_ptr()),
        ctypes.c_long(x[first:last].numel()),
    )


def kernel(x, y):
    z = torch.empty_like(x)
    step = -(-x.shape[0] // 3)
    threads = [
        threading.Thread(target=rows, args=(x, y, z, at, min(at + step, x.shape[0])))
        for at in range(0, x.shape[0], step)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return z
