# module: matmul
# expect: precision_flag
# family: environment
# Lets PyTorch use TF32 for everybody.
import torch

torch.backends.cuda.matmul.allow_tf32 = True


def kernel(a, b):
    return a @ b
