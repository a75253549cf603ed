# module: matmul
# expect: precision_lowered
# Half precision behind a float32 result.
def kernel(a, b):
    return (a.half() @ b.half()).float()
