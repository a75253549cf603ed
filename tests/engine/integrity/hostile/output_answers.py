# expect: garbled time_limit
# Answers the engine without end.
import contextlib
import os

while True:
    for fd in range(3, 400):
        with contextlib.suppress(OSError):
            os.set_blocking(fd, False)
            os.write(fd, b"[" * 65536)


def kernel(x):
    return x
