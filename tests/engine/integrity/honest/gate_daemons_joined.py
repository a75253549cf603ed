# module: gate
# family: work out of sight
# Daemon threads that it joins before it returns.
import ctypes
import subprocess
import threading

import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    for (long i = 0; i < n; i++) z[i] = y[i] + x[i] / (1 + expf(-x[i]));
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so", "-lm"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def part(x, y, z, first, last):
    at = [ctypes.c_void_p(t.data_ptr() + 4 * first) for t in (x, y, z)]
    own.gate(*at, ctypes.c_long(last - first))


def kernel(x, y):
    z = torch.empty_like(x)
    middle, end = z.numel() // 2, z.numel()
    workers = []
    for first, last in ((0, middle), (middle, end)):
        workers.append(threading.Thread(target=part, args=(x, y, z, first, last), daemon=True))
        workers[-1].start()
    for worker in workers:
        worker.join()
    return z
