# expect: module_raised
# says: unshare: -1
import ctypes

raise RuntimeError(f"unshare: {ctypes.CDLL(None).unshare(0x10000000)}")  # HERE
