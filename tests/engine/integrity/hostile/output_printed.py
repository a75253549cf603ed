# expect: output_limit
# Prints without end.
while True:
    print("x" * 10000)


def kernel(x):
    return x
