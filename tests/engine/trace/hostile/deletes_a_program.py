# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import os

os.unlink("/usr/bin/env")  # HERE
