# Files in memory that have no name.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
import os

held = []
while True:
    fd = os.memfd_create("x")
    held.append(fd)
    for _ in range(32):
        os.write(fd, b"x" * (1 << 20))


def kernel(x):
    return x
