# expect: module_raised
# says: left one behind
import ctypes
import os

libc = ctypes.CDLL(None)
if libc.fork() == 0:
    libc.setsid()
    if libc.fork() == 0:
        while True:
            libc.sleep(60)
    os._exit(0)
raise RuntimeError("left one behind")  # HERE
