# A name space of its own, in which it would be root.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
if libc.unshare(0x10000000 | 0x00020000) == 0:
    raise SystemError("LEAK a user name space")


def kernel(x):
    return x
