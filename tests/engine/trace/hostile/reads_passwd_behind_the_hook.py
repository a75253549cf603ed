# expect: module_raised
# says: nothing there
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
fd = libc.open(b"/etc/passwd", 0)
raise RuntimeError("nothing there" if fd < 0 else "got it")  # HERE
