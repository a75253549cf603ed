# expect: module_raised
# says: no terminal
# in: a copy
import ctypes

fd = ctypes.CDLL(None).open(b"/dev/tty", 2)
raise RuntimeError("LEAK" if fd >= 0 else "no terminal")  # HERE
