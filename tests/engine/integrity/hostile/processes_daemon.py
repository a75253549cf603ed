# expect: threads
# Leaves a daemon behind.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
import os

if libc.fork() == 0:
    libc.setsid()
    if libc.fork() == 0:
        while True:
            libc.sleep(60)
    os._exit(0)


def kernel(x):
    return x
