# expect: module_raised
# says: clock_settime: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.clock_settime(0, ctypes.create_string_buffer(16))
raise RuntimeError(f"clock_settime: {result}")  # HERE
