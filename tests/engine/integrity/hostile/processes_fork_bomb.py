# expect: process_limit time_limit crashed raised memory_limit
# Forks without end.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
while True:
    libc.fork()


def kernel(x):
    return x
