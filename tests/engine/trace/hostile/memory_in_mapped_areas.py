# expect: process_limit
# says: started too many processes
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
for i in range(60_000):
    libc.mmap(None, 4096, 1 + 2 * (i & 1), 0x22, -1, 0)
for _ in range(60):
    if libc.fork() == 0:
        while True:
            libc.sleep(60)
while True:
    libc.sleep(60)
