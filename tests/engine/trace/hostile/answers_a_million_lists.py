# expect: garbled
# says: more than 1048576 elements
# in: a copy
import sys
import time

view = memoryview(b'{"ok": [' + b"[]," * 2_000_000 + b"[]]}\n")
import os

while view:
    view = view[os.write(int(sys.argv[2]), view) :]
time.sleep(60)
