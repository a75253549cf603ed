# expect: module_raised
# says: fanotify_init: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(300, 0, 0)
raise RuntimeError(f"fanotify_init: {result}")  # HERE
