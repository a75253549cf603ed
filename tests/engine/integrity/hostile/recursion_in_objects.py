# expect: wrong_type
# A result that holds itself.
loop = []
loop.append(loop)


def kernel(x):
    return loop
