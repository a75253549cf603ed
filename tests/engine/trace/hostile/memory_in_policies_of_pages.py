# expect: module_raised
# says: refused after 0 pages
# in: a copy
import ctypes
import os

libc = ctypes.CDLL(None)
libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
libc.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
SIZE, PAGE, node = 64 << 20, 4096, ctypes.c_ulong(1)
many = files = 0
while many == files * (SIZE // PAGE // 2) and files < 1000:
    fd = os.open(f"/scratch/policies{files}", os.O_RDWR | os.O_CREAT)
    os.ftruncate(fd, SIZE)
    start = libc.mmap(None, SIZE, 3, 1, fd, 0)
    for page in range(0, SIZE // PAGE, 2):  # neighbours would share one
        many += libc.syscall(237, ctypes.c_void_p(start + PAGE * page), PAGE, 2, ctypes.byref(node), 8, 0) == 0
    libc.munmap(start, SIZE)
    os.close(fd)
    files += 1
raise RuntimeError(f"refused after {many} pages")  # HERE
