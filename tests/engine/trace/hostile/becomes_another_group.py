# expect: module_raised
# says: setgroups: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.setgroups(1, ctypes.create_string_buffer(4))
raise RuntimeError(f"setgroups: {result}")  # HERE
