# expect: module_raised
# alone: module_raised or crashed
# says: nobody died
# Of a copy it also kills the process that made it, which may be noticed before its error is read.
import ctypes

libc = ctypes.CDLL(None)
libc.kill(-1, 9)
libc.kill(1, 9)
raise RuntimeError("nobody died")  # HERE
