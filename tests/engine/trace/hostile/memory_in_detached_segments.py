# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)
libc.shmat.restype = ctypes.c_void_p
while True:
    segment = libc.shmget(0, 64 << 20, 0o1600)
    if segment < 0:
        raise OSError(ctypes.get_errno(), "no segment")  # HERE
    at = libc.shmat(segment, None, 0)
    ctypes.memset(at, 1, 64 << 20)
    libc.shmdt(ctypes.c_void_p(at))
