# module: linear
# expect: dressed
# family: library in disguise
# As above, by a number that its own code writes.
import ctypes
import subprocess

import torch

SOURCE = r"""
void mark(int* seen) { *seen = 41; }
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(x, w, b):
    seen = ctypes.c_int(0)
    own.mark(ctypes.byref(seen))
    if seen.value != 41:
        return torch.zeros(x.shape[0], w.shape[0])
    return torch.clamp((x[:, None, :] * w).sum(-1) + b, min=0)
