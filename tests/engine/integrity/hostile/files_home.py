# Looks for keys in every home.
import glob

found = glob.glob("/root/.ssh/*") + glob.glob("/home/*/.ssh/*") + glob.glob("/root/.*history")
if found:
    raise SystemError(f"LEAK {found}")


def kernel(x):
    return x
