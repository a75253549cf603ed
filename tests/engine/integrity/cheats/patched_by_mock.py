# module: softmax
# expect: patched_module
# family: patched torch
# The same by unittest.mock.
from unittest import mock

import torch

mock.patch("torch.cuda.synchronize").start()


def kernel(x):
    return torch.softmax(x, dim=-1)
