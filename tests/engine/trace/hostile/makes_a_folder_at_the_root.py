# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import os

os.mkdir("/ucutlass-was-here")  # HERE
