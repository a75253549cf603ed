# module: matmul
# expect: precision_flag
# family: environment
# PyTorch's coarsest products for everybody.
import torch

torch.set_float32_matmul_precision("medium")


def kernel(a, b):
    return a @ b
