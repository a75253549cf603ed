# expect: crashed time_limit
# Kills its parent and process 1.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
import os

for pid in (1, os.getppid(), 2, 3):
    libc.kill(pid, 9)
libc.sleep(100)


def kernel(x):
    return x
