# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
# alone: module_raised
import os

open(f"/proc/{os.getppid()}/mem", "rb")  # HERE
