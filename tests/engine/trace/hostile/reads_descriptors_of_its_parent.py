# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
# alone: module_raised
import os

os.listdir(f"/proc/{os.getppid()}/fd")  # HERE
