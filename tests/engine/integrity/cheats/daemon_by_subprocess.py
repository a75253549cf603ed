# module: softmax
# expect: threads
# family: work out of sight
# A program that lives on beside the kernel.
import subprocess

import torch

daemon = subprocess.Popen(["sleep", "30"])


def kernel(x):
    return torch.softmax(x, dim=-1)
