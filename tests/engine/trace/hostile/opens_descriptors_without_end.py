# expect: module_raised
# says: Too many open files
# in: a copy
import os

while True:
    os.dup(0)  # HERE
