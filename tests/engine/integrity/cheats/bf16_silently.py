# module: matmul
# expect: precision_lowered
# family: class by bits
# bfloat16 behind a float32 result.
def kernel(a, b):
    return (a.bfloat16() @ b.bfloat16()).float()
