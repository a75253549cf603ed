# expect: time_limit
# says: did not end within
# in: a copy
import ctypes

ctypes.PyDLL(None).sleep(600)  # HERE
