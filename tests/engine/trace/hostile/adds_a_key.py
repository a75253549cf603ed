# expect: module_raised
# says: add_key: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(248, b"user", b"k", b"x" * 4096, 4096, -2)
raise RuntimeError(f"add_key: {result}")  # HERE
