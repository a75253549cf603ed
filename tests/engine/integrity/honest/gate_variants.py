# module: gate
# family: memo and stale results
# Chooses a variant by alignment, counts launches by the identity of the function, returns early for nothing.
import ctypes
import subprocess

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


NOTHING = torch.empty(0)
variants, launches = {}, {}


def kernel(x, y):
    if x.numel() == 0:
        return NOTHING
    z = torch.empty_like(x)
    aligned = x.data_ptr() % 16 == 0
    if aligned not in variants:
        variants[aligned] = own.gate
    launch = own.gate
    launches[id(launch)] = launches.get(id(launch), 0) + 1
    variants[aligned](*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(z.numel()))
    return z
