# expect: module_raised
# says: left something behind
# in: a copy
import signal


def late(*_):
    while True:
        pass


signal.signal(signal.SIGALRM, late)
signal.setitimer(signal.ITIMER_REAL, 0.3)
raise RuntimeError("left something behind")  # HERE
