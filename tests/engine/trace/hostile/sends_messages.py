# expect: module_raised
# says: msgget: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.msgget(0, 0o1600)
raise RuntimeError(f"msgget: {result}")  # HERE
