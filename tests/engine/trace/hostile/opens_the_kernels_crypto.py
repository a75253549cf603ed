# expect: module_raised
# says: socket: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.socket(38, 5, 0)
raise RuntimeError(f"socket: {result}")  # HERE
