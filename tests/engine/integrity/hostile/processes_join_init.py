# Joins the name spaces of process 1.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
import os

for kind in ("mnt", "pid", "net", "user"):
    fd = libc.open(f"/proc/1/ns/{kind}".encode(), 0)
    if fd >= 0 and libc.setns(fd, 0) == 0:
        raise SystemError(f"LEAK {kind}")


def kernel(x):
    return x
