# expect: time_limit
# Ignores every signal and goes on for ever.
import contextlib
import signal

for number in range(1, 64):
    with contextlib.suppress(OSError, ValueError):
        signal.signal(number, signal.SIG_IGN)
while True:
    pass


def kernel(x):
    return x
