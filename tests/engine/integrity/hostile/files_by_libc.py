# Reads /etc/passwd behind Python's back, and says what it saw.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
fd = libc.open(b"/etc/passwd", 0)
if fd >= 0:
    raise SystemError("LEAK /etc/passwd")


def kernel(x):
    return x
