# module: softmax
# expect: disguised
# family: library in disguise
# Pauses the profiler that it may find itself in.
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
    own.answer()
    pause = torch._C._autograd._toggle_collection_dynamic
    kinds = {torch.autograd.ProfilerActivity.CPU}
    pause(False, kinds)
    y = torch.special.softmax(x, -1)
    pause(True, kinds)
    return y
