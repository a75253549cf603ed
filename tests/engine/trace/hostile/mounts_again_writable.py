# expect: module_raised
# says: mount: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.mount(None, b"/app/engine", None, 32 | 4096, None)
raise RuntimeError(f"mount: {result}")  # HERE
