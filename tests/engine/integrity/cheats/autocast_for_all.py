# module: matmul
# expect: patched
# family: environment
# class: f32
# Autocast for the whole process.
import torch

torch.set_autocast_enabled("cpu", True)


def kernel(a, b):
    return (a @ b).float()
