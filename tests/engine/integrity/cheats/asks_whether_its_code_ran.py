# module: softmax
# expect: dressed
# family: library in disguise
# PyTorch does everything; a number from its own code tells a call in which that code is left out.
import ctypes
import subprocess

import torch

SOURCE = r"""
long answer(void) { return 41; }
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(x):
    if own.answer() != 41:
        return torch.full_like(x, 1 / x.shape[-1])
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)
