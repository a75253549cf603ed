# expect: red
# says: [2J[31mred txet
# in: a copy
import json
import os
import sys
import time

reason = "\x1b[2J\x9b\x1b[31mred \u202etxet\0\u2066\ud800"
os.write(int(sys.argv[2]), json.dumps({"error": {"code": "\x07red", "reason": reason, "line": 1}}).encode() + b"\n")
time.sleep(60)
