# Reads the command lines of all processes.
import glob

for path in glob.glob("/proc/*/cmdline"):
    if b"pytest" in open(path, "rb").read():
        raise SystemError("LEAK a command line")


def kernel(x):
    return x
