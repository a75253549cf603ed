# expect: hidden_code
# An expression nested ten thousand deep.
y = eval("-" * 30000 + "1")


def kernel(x):
    return x
