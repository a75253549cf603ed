# expect: module_raised
# says: socketpair: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.socketpair(1, 1, 0, ctypes.create_string_buffer(8))
raise RuntimeError(f"socketpair: {result}")  # HERE
