# expect: time_limit
# Waits in a vfork.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.fork() == 0:
    libc.pause()
libc.wait(None)


def kernel(x):
    return x
