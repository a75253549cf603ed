# expect: module_raised
# says: io_uring_setup: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(425, 8, ctypes.create_string_buffer(256))
raise RuntimeError(f"io_uring_setup: {result}")  # HERE
