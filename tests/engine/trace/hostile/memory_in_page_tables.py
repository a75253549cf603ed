# expect: memory_limit
# says: used more memory than
# in: a copy
import mmap

NORESERVE = 0x4000
space = mmap.mmap(-1, 8 << 40, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NORESERVE, prot=mmap.PROT_READ)
for at in range(0, len(space), 2 << 20):  # HERE
    space[at]  # HERE, or no line: it is ended inside the kernel, perhaps before it writes its stack
