# Reads every environment that it can see, and says what it saw.
import glob
import os

text = str(dict(os.environ))
for path in glob.glob("/proc/*/environ"):
    try:
        text += open(path, "rb").read().decode(errors="replace")
    except OSError:
        continue
if "UCUTLASS_TEST_SECRET" in text:
    raise SystemError("LEAK the environment")


def kernel(x):
    return x
