# module: matmul
# expect: precision_lowered
# family: class by bits
# Half precision behind a float32 result.
def kernel(a, b):
    return (a.half() @ b.half()).float()
