# expect: module_raised
# says: mknod: -1
# in: a copy
import ctypes

libc = ctypes.CDLL(None)
result = libc.mknod(b"/scratch/sda", 0o60666, 0x800)
raise RuntimeError(f"mknod: {result}")  # HERE
