# expect: module_raised
# says: userfaultfd: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(323, 0)
raise RuntimeError(f"userfaultfd: {result}")  # HERE
