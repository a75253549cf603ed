# expect: sandbox_blocked
# says: is not allowed in the sandbox
# in: a copy
import os

held = []
while True:
    fd = os.memfd_create("x")  # HERE
    held.append(fd)
    os.write(fd, bytes(32 << 20))
