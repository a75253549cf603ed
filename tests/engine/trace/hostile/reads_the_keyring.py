# expect: module_raised
# says: keyctl: -1
# in: a copy
import ctypes

raise RuntimeError(f"keyctl: {ctypes.CDLL(None).syscall(250, 0, -3, 0)}")  # HERE
