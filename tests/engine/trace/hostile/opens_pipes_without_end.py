# expect: module_raised
# says: Too many open files
# in: a copy
import fcntl
import os

while True:
    _, w = os.pipe()  # HERE
    fcntl.fcntl(w, fcntl.F_SETFL, os.O_NONBLOCK)
    os.write(w, bytes(1 << 16))
