# expect: memory_limit time_limit
# A megabyte after the other.
held = []
while True:
    held.append(bytearray(1 << 20))


def kernel(x):
    return x
