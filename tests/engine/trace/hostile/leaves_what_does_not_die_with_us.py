# expect: module_raised
# says: left something behind
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
libc.prctl(1, 0, 0, 0, 0)  # no signal when the parent dies
if libc.fork() == 0:
    libc.setsid()
    while True:
        libc.pause()
raise RuntimeError("left something behind")  # HERE
