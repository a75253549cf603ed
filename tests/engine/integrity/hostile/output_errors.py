# expect: raised
# An error of a hundred megabytes.
raise RuntimeError("x" * (100 << 20))


def kernel(x):
    return x
