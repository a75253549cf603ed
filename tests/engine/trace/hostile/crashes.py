# expect: crashed
# says: SIGSEGV
import ctypes

ctypes.string_at(8)  # HERE
