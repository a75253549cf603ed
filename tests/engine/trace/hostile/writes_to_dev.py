# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
open("/dev/ucutlass-was-here", "w")  # HERE
