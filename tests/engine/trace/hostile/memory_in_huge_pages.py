# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import mmap

HUGE = 0x40000
mmap.mmap(-1, 64 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | HUGE)  # HERE
