# expect: module_raised
# says: ptrace: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.ptrace(0x4206, 2, 0, 0)
raise RuntimeError(f"ptrace: {result}")  # HERE
