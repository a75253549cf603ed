# module: softmax
# expect: tensor_subclass
# family: patched torch
# A dispatch mode that stays and sees every operation of the harness.
import torch
from torch.overrides import TorchFunctionMode


class Mode(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


Mode().__enter__()


def kernel(x):
    return torch.softmax(x, dim=-1)
