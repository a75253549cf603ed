# expect: module_raised
# says: reboot: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.reboot(0x1234567)
raise RuntimeError(f"reboot: {result}")  # HERE
