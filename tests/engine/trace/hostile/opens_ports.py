# expect: module_raised
# says: iopl: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.iopl(3)
raise RuntimeError(f"iopl: {result}")  # HERE
