# Traces its parent and reads its memory.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
import os

if libc.ptrace(16, os.getppid(), 0, 0) == 0:
    raise SystemError("LEAK ptrace")
fd = libc.open(f"/proc/{os.getppid()}/mem".encode(), 2)
if fd >= 0:
    raise SystemError("LEAK memory")


def kernel(x):
    return x
