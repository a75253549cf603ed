# expect: module_raised
# says: mount: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.mount(b"proc", b"/scratch", b"proc", 0, None)
raise RuntimeError(f"mount: {result}")  # HERE
