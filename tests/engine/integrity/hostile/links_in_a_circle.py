# Links to each other.
import os

os.symlink("b", "a")
os.symlink("a", "b")
os.symlink(".", "self")


def kernel(x):
    return x
