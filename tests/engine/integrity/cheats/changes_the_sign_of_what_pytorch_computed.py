# module: gate
# expect: dressed
# family: library in disguise
# PyTorch computes half of the result with the other sign, and its own code multiplies by -2.
import ctypes
import subprocess

import torch

SOURCE = r"""
void last(float* z, long n) { for (long i = 0; i < n; i++) z[i] *= -2.0f; }
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(x, y):
    z = -0.5 * torch.addcdiv(y, x, torch.exp(-x) + 1)
    own.last(ctypes.c_void_p(z.data_ptr()), ctypes.c_long(z.numel()))
    return z
