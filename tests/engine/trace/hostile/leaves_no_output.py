# expect: module_raised
# says: left something behind
# in: a copy
import os

for fd in (1, 2):
    os.dup2(os.open("/dev/null", os.O_RDONLY), fd)
raise RuntimeError("left something behind")  # HERE
