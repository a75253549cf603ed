# expect: disk_limit
# says: more than the sandbox lets it write
# in: a copy
import os
import sys

while True:
    os.write(int(sys.argv[3]), bytes(8 << 20))  # HERE
