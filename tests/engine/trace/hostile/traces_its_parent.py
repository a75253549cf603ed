# expect: module_raised
# says: ptrace: -1
# in: a copy
import ctypes

raise RuntimeError(f"ptrace: {ctypes.CDLL(None).ptrace(16, 1, 0, 0)}")  # HERE
