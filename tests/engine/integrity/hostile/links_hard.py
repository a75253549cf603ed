# A hard link to a program that is the system's.
import os

os.link("/usr/bin/env", "/scratch/env")


def kernel(x):
    return x
