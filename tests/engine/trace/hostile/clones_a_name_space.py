# expect: module_raised
# says: clone: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(56, 0x10000000 | 17, 0, 0, 0, 0)
raise RuntimeError(f"clone: {result}")  # HERE
