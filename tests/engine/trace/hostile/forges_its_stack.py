# expect: exited
# says: ended
import os

FORGED = 'Thread 0x1 (most recent call first):\n  File "module.py", line ' + "9" * 5000 + " in forward\n"
for n in range(3, 400):
    try:
        name = os.readlink(f"/proc/self/fd/{n}")
    except OSError:
        continue
    if "ucutlass-stacks" in name:
        os.write(n, FORGED.encode())
os._exit(3)
