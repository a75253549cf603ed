# expect: module_raised
# says: sethostname: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.sethostname(b"x", 1)
raise RuntimeError(f"sethostname: {result}")  # HERE
