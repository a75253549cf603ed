# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import ctypes
import mmap
import os

libc = ctypes.CDLL(None)
while True:
    shared = mmap.mmap(-1, 64 << 20)  # HERE
    if libc.fork() == 0:
        shared[:] = b"x" * (64 << 20)
        os._exit(0)
