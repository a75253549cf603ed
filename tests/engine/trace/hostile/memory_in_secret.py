# expect: module_raised
# says: memfd_secret: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(447, 0)
raise RuntimeError(f"memfd_secret: {result}")  # HERE
