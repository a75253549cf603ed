# expect: module_raised
# says: pidfd_getfd: -1
# in: a copy
import ctypes
import os

libc = ctypes.CDLL(None)
pidfd = libc.syscall(434, os.getppid(), 0)
raise RuntimeError(f"pidfd_getfd: {libc.syscall(438, pidfd, 1, 0)}")  # HERE
