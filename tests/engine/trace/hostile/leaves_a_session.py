# expect: module_raised
# says: left something behind
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
if libc.fork() == 0:
    libc.setsid()
    for number in range(1, 32):
        libc.signal(number, 1)
    while True:
        libc.sleep(60)
raise RuntimeError("left something behind")  # HERE
