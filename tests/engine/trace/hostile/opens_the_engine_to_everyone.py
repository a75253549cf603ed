# expect: sandbox_blocked
# says: Read-only file system
# in: a copy
import os

os.chmod("/app/engine", 0o777)  # HERE
