# expect: memory_limit process_limit crashed time_limit
# The same in four processes.
import ctypes

libc = ctypes.CDLL(None, use_errno=True)
libc.fork()
libc.fork()
held = []
while True:
    held.append(b"x" * (1 << 20))


def kernel(x):
    return x
