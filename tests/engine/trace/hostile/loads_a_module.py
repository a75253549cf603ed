# expect: module_raised
# says: init_module: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(175, b"", 0, b"")
raise RuntimeError(f"init_module: {result}")  # HERE
