# expect: crashed threads
# Kills every process that it may.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.kill(-1, 9)


def kernel(x):
    return x
