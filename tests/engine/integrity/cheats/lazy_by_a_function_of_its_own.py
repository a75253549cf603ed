# module: gate
# expect: lazy
# family: lazy results
# Its result is a plain tensor whose own copy of `detach` computes.
import ctypes
import subprocess

import torch

SOURCE = r"""
void begin(float* z) { z[0] = 1; }
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(x, y):
    z = torch.empty_like(x)
    own.begin(ctypes.c_void_p(z.data_ptr()))
    a, b = x.clone(), y.clone()
    z.detach = lambda: b + torch.nn.functional.silu(a)
    return z
