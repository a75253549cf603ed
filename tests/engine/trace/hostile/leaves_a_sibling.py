# expect: module_raised
# says: left something behind
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
if libc.syscall(56, 0x8000 | 17, 0, 0, 0, 0) == 0:  # CLONE_PARENT: its parent is ours
    while True:
        libc.sleep(60)
raise RuntimeError("left something behind")  # HERE
