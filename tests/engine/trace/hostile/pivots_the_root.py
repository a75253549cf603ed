# expect: module_raised
# says: pivot_root: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(155, b"/scratch", b"/scratch")
raise RuntimeError(f"pivot_root: {result}")  # HERE
