# module: gate
# expect: passthrough
# family: skipping work
# Returns an input.
def kernel(x, y):
    return x
