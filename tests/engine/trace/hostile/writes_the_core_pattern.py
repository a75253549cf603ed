# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
open("/proc/sys/kernel/core_pattern", "w")  # HERE
