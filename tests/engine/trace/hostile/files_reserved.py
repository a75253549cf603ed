# expect: disk_limit
# says: more than the sandbox lets it write
# in: a copy
import os

for i in range(100):
    os.posix_fallocate(os.open(f"/scratch/{i}", os.O_CREAT | os.O_RDWR), 0, 60 << 20)  # HERE
