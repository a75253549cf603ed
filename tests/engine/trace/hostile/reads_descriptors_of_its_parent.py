# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import os

os.listdir(f"/proc/{os.getppid()}/fd")  # HERE
