# expect: garbled
# says: could not be read
import os
import sys
import time

os.write(int(sys.argv[2]), b"[" * 1_000_000 + b"\n")
time.sleep(60)
