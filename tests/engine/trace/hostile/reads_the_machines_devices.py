# expect: module_raised
# says: no machine
# in: a copy
import os

paths = ("/sys/class/net", "/sys/block", "/sys/fs/cgroup", "/sys/kernel/debug", "/dev/input", "/dev/disk")
raise RuntimeError("LEAK" if any(map(os.path.exists, paths)) else "no machine")  # HERE
