# expect: disk_limit
# says: more than the sandbox lets it write
# in: a copy
import os

os.truncate(os.open("/scratch/holes", os.O_CREAT | os.O_RDWR), 1 << 40)  # HERE
