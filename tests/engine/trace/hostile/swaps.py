# expect: module_raised
# says: swapon: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.swapon(b"/scratch", 0)
raise RuntimeError(f"swapon: {result}")  # HERE
