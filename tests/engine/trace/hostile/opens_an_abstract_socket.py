# expect: module_raised
# says: socket: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.socket(1, 1, 0)
raise RuntimeError(f"socket: {result}")  # HERE
