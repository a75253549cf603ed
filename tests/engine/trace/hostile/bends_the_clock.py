# expect: module_raised
# says: adjtimex: -1
# in: a copy
import ctypes

change = ctypes.create_string_buffer(256)
change[0] = 2  # a new frequency

libc = ctypes.CDLL(None)
result = libc.adjtimex(change)
raise RuntimeError(f"adjtimex: {result}")  # HERE
