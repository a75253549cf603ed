# expect: disk_limit
# says: more than the sandbox lets it write
# in: a copy
import os

held = []
for i in range(100):
    held.append(open(f"/dev/shm/{i}", "wb", buffering=0))
    os.unlink(f"/dev/shm/{i}")
    held[-1].write(bytes(60 << 20))  # HERE
    if os.fstat(held[-1].fileno()).st_size < 60 << 20:
        os.posix_fallocate(held[-1].fileno(), 0, 60 << 20)  # HERE
