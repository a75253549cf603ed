# module: softmax
# expect: input_written
# family: writing outside
# Works in its input's memory.
def kernel(x):
    return x.sub_(x.amax(-1, keepdim=True)).exp_().div_(x.sum(-1, keepdim=True))
