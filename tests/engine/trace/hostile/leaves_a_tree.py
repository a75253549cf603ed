# expect: module_raised
# says: left something behind
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
libc.prctl(36, 1, 0, 0, 0)  # orphans become its children
for _ in range(4):
    if libc.fork() == 0:
        if libc.fork() == 0:
            while True:
                libc.sleep(60)
        libc._exit(0)
raise RuntimeError("left something behind")  # HERE
