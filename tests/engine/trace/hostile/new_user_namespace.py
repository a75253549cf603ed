# expect: module_raised
# says: unshare: -1
# in: a copy
import ctypes

raise RuntimeError(f"unshare: {ctypes.CDLL(None).unshare(0x10000000)}")  # HERE
