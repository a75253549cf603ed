# expect: module_raised
# says: setuid: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.setuid(0)
raise RuntimeError(f"setuid: {result}")  # HERE
