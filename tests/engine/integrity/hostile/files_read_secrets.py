# expect: sandbox
# Reads what a machine keeps to itself.
text = open("/etc/shadow").read()


def kernel(x):
    return x
