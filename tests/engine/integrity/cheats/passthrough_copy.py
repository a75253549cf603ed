# module: gate
# expect: passthrough
# family: skipping work
# Returns a copy of an input.
def kernel(x, y):
    return y.clone()
