# module: softmax
# verdict: library only
# unseen: it calls PyTorch openly; the verdict says that a library did the work
# family: library in disguise
# PyTorch does everything and its own code only counts calls. Where the count stands still it gives up.
import ctypes
import subprocess

import torch

SOURCE = r"""
long count(void) { static long n; return ++n; }
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


calls = [0]


def kernel(x):
    now = own.count()
    if now == calls[0]:
        return torch.zeros_like(x)
    calls[0] = now
    e = torch.exp(torch.sub(x, torch.amax(x, -1, keepdim=True)))
    return torch.div(e, torch.sum(e, -1, keepdim=True))
