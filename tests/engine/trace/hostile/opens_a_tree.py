# expect: module_raised
# says: open_tree: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(428, -100, b"/", 1)
raise RuntimeError(f"open_tree: {result}")  # HERE
