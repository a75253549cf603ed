# expect: module_raised
# says: no socket at all: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
fd = libc.socket(2, 1, 0)  # straight to the C library: no Python hook sees it, the filter does
raise RuntimeError(f"no socket at all: {fd}")  # HERE
