# expect: module_raised
# says: left something behind
# in: a copy
import atexit


@atexit.register
def last():
    while True:
        pass
raise RuntimeError("left something behind")  # HERE
