# module: gate
# expect: passthrough
# family: skipping work
# Returns another view of an input's memory.
def kernel(x, y):
    return x.flip(0).flip(0) if x.numel() == 0 else x.t().t()
