# module: gate
# expect: unwritten|wrong_result|late_change|unsteady|replayed|nan
# family: skipping work
# One call of five leaves its result as it was, once calls come one after the other.
import ctypes
import subprocess

import torch

SOURCE = r"""
#include <math.h>
void gate(const float* x, const float* y, float* z, long n) {
    static int calls;
    if (++calls > 20 && calls % 5 == 0) return;
    for (long i = 0; i < n; i++) z[i] = y[i] + x[i] / (1 + expf(-x[i]));
}
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so", "-lm"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(x, y):
    z = torch.empty_like(x)
    own.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(z.numel()))
    return z
