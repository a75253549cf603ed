# expect: module_raised
# says: No such device
# in: a copy
import mmap
import os

zero = os.open("/dev/zero", os.O_RDWR)
while True:
    mmap.mmap(zero, 64 << 20)  # HERE
