# expect: memory_limit
# says: asks for more memory than is available
# in: a copy
import mmap

POPULATE = 0x8000
whole = mmap.mmap(-1, 12 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | POPULATE)  # HERE
