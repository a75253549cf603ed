# expect: module_raised
# says: chroot: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.chroot(b"/scratch")
raise RuntimeError(f"chroot: {result}")  # HERE
