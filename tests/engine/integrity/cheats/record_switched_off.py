# module: gate
# expect: harness_access disguised
# family: library in disguise
# PyTorch computes while it is told to record nothing.
import ctypes
import subprocess

import torch

SOURCE = r"""
long answer(void) { return 41; }
"""
command = ["gcc", "-O2", "-shared", "-fPIC", "-x", "c", "-", "-o", "own.so"]
subprocess.run(command, input=SOURCE, text=True, check=True)
own = ctypes.CDLL("./own.so")


def kernel(x, y):
    own.answer()
    switch = torch.autograd._enable_record_function
    switch(False)
    z = y + x * torch.sigmoid(x)
    switch(True)
    return z
