# expect: module_raised
# says: mlockall: -1
# in: a copy
import ctypes
import mmap

libc = ctypes.CDLL(None)
space = mmap.mmap(-1, 1 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
raise RuntimeError(f"mlockall: {libc.mlockall(1)}")  # HERE
