# expect: disk_limit
# says: more than the sandbox lets it write
# in: a copy
import os

regions = []
for fd in range(3, 512):
    try:
        if "memfd:ucutlass-own" in os.readlink(f"/proc/self/fd/{fd}"):
            regions.append(fd)
    except OSError:
        continue
while True:
    os.write(regions[0], bytes(8 << 20))  # HERE
