# expect: module_raised
# says: nice: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.nice(-20)
raise RuntimeError(f"nice: {result}")  # HERE
