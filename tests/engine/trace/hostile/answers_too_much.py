# expect: garbled
# says: longer than the engine reads
import os
import sys

while True:
    os.write(int(sys.argv[2]), b"[" * 65536)
