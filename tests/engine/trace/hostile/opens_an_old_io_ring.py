# expect: module_raised
# says: io_setup: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(206, 8, ctypes.create_string_buffer(8))
raise RuntimeError(f"io_setup: {result}")  # HERE
