# module: softmax
# expect: patched_module patched
# family: patched torch
# Nobody prints any more.
import builtins

import torch

builtins.print = lambda *_, **__: None


def kernel(x):
    return torch.softmax(x, dim=-1)
