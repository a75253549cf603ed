# expect: time_limit
# says: did not end within
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
libc.kill(libc.getpid(), 19)
