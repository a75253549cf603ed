# expect: module_raised
# says: clone3: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(435, ctypes.create_string_buffer(88), 88)
raise RuntimeError(f"clone3: {result}")  # HERE
