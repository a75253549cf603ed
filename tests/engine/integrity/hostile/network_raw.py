# Makes packets of its own.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
for family, kind in ((17, 3), (2, 3), (10, 3), (40, 1), (38, 5)):
    if libc.socket(family, kind, 0) >= 0:
        raise SystemError(f"LEAK a socket of family {family}")


def kernel(x):
    return x
