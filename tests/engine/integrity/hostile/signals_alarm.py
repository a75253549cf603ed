# expect: harness_access
# An alarm in the middle of the harness.
import signal

signal.signal(signal.SIGALRM, lambda *_: 1 / 0)
signal.setitimer(signal.ITIMER_REAL, 0.01, 0.01)


def kernel(x):
    return x
