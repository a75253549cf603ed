# Installs a package.
import subprocess
import sys

done = subprocess.run(
    [sys.executable, "-m", "pip", "install", "six", "--target", "/scratch/x", "--retries", "0", "--timeout", "1"]
)
if done.returncode == 0:
    raise SystemError("LEAK pip installed")


def kernel(x):
    return x
