# Becomes root by a program that may.
import os
import subprocess

subprocess.run(["su", "-c", "id"], stdin=subprocess.DEVNULL)
os.setuid(0)
if os.getuid() == 0 and os.access("/root", os.W_OK):
    raise SystemError("LEAK root")


def kernel(x):
    return x
