# expect: module_raised
# says: kcmp: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(312, 2, libc.getpid(), 0, 1, 1)
raise RuntimeError(f"kcmp: {result}")  # HERE
