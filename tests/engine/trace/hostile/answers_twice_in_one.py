# expect: garbled
# says: the same key twice
# in: a copy
import sys
import time

view = memoryview(b'{"ok": 1, "ok": 2}\n')
import os

while view:
    view = view[os.write(int(sys.argv[2]), view) :]
time.sleep(60)
