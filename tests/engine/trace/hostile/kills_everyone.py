# expect: module_raised
# says: nobody died
import ctypes

libc = ctypes.CDLL(None)
libc.kill(-1, 9)
libc.kill(1, 9)
raise RuntimeError("nobody died")  # HERE
