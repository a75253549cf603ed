# expect: module_raised
# says: umount2: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.umount2(b"/proc", 2)
raise RuntimeError(f"umount2: {result}")  # HERE
