# expect: module_raised
# says: refused 8 of 8
# in: a copy
import ctypes
import os

libc = ctypes.CDLL(None)


class Lock(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_short), ("whence", ctypes.c_short), ("start", ctypes.c_int64)] + [
        ("length", ctypes.c_int64), ("pid", ctypes.c_int)
    ]  # fmt: skip


fd = os.open("/scratch/locked", os.O_RDWR | os.O_CREAT)
results = []
for command in (6, 7, 37, 38):  # F_SETLK, F_SETLKW and those of open files; each byte takes 400 of the kernel's
    for upper in (0, 1):
        lock = Lock(1, 0, 2 * len(results), 1, 0)
        results.append(libc.syscall(72, fd, ctypes.c_ulong(upper << 32 | command), ctypes.byref(lock)))
raise RuntimeError(f"refused {results.count(-1)} of {len(results)}")  # HERE
