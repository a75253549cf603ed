# expect: module_raised
# says: kexec_load: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.syscall(246, 0, 0, 0, 0)
raise RuntimeError(f"kexec_load: {result}")  # HERE
