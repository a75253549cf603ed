# expect: module_raised
# says: no key
# in: a copy
try:
    open("/proc/sysrq-trigger", "w")
except OSError:
    raise RuntimeError("no key")  # HERE
