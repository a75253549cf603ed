# expect: module_raised
# says: fsopen: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(430, b"tmpfs", 0)
raise RuntimeError(f"fsopen: {result}")  # HERE
