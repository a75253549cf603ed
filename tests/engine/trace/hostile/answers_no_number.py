# expect: garbled
# says: the number NaN
# in: a copy
import sys
import time

view = memoryview(b'{"ok": NaN}\n')
import os

while view:
    view = view[os.write(int(sys.argv[2]), view) :]
time.sleep(60)
