# expect: module_raised
# says: no core
# in: a copy
import ctypes

fd = ctypes.CDLL(None).open(b"/proc/kcore", 0)
raise RuntimeError("LEAK" if fd >= 0 else "no core")  # HERE
