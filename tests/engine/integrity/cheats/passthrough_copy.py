# module: gate
# expect: passthrough
# Returns a copy of an input.
def kernel(x, y):
    return y.clone()
