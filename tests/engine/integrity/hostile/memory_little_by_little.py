# expect: memory_limit time_limit
# A megabyte after the other.
blocks = []
while True:
    blocks.append(bytearray(1 << 20))


def kernel(x):
    return x
