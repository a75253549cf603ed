# module: matmul
# expect: precision_flag
# family: class by bits
# Lets cuBLAS use TF32.
import torch

torch.set_float32_matmul_precision("high")


def kernel(a, b):
    return a @ b
