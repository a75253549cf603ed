# expect: module_raised
# says: mq_open: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(240, b"q", 0o102, 0o600, None)
raise RuntimeError(f"mq_open: {result}")  # HERE
