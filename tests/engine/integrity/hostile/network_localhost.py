# Connects to what listens here.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
import struct

fd = libc.socket(2, 1, 0)
if fd >= 0:
    for port in (22, 80, 5432, 6379, 8000):
        if libc.connect(fd, struct.pack("!HH4s8x", 0x0200, port, b"\x7f\x00\x00\x01"), 16) == 0:
            raise SystemError("LEAK a connection")


def kernel(x):
    return x
