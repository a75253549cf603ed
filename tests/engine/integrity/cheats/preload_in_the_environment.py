# module: softmax
# expect: patched_module
# family: environment
# A library for every program that starts later.
import os

import torch

os.environ["LD_PRELOAD"] = "./kernel.so"


def kernel(x):
    return torch.softmax(x, dim=-1)
