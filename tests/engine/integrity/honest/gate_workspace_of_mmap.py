# module: gate
# family: reaching the harness
# Its workspace is anonymous memory, and it looks its library up in its folder.
import ctypes
import mmap
import os
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
own = ctypes.CDLL("./" + next(name for name in os.listdir(".") if name == "own.so"))


space = mmap.mmap(-1, 1 << 20)


def kernel(x, y):
    z = torch.frombuffer(space, dtype=torch.float32, count=x.numel()).view(x.shape)
    own.gate(*(ctypes.c_void_p(t.data_ptr()) for t in (x, y, z)), ctypes.c_long(z.numel()))
    return z.clone()
