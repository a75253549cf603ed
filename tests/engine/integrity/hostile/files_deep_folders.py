# Folders in folders without end.
import os

while True:
    os.mkdir("d")
    os.chdir("d")


def kernel(x):
    return x
