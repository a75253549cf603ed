# expect: module_raised
# says: acct: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.acct(b"/scratch/acct")
raise RuntimeError(f"acct: {result}")  # HERE
