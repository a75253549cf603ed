# expect: module_raised
# says: semget: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.semget(0, 1000, 0o1600)
raise RuntimeError(f"semget: {result}")  # HERE
