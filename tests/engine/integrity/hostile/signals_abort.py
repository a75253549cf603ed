# expect: crashed
# Aborts, with a core of all that it knows.
import os
import resource

with __import__("contextlib").suppress(Exception):
    resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))
os.abort()


def kernel(x):
    return x
