# expect: module_raised
# says: personality: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.personality(0x0040000)
raise RuntimeError(f"personality: {result}")  # HERE
