# expect: raised
# Escape sequences for whoever reads the log.
raise RuntimeError("\x1b]0;owned\x07\x1b[2J\u202e")


def kernel(x):
    return x
