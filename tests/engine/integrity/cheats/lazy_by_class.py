# module: softmax
# expect: tensor_subclass lazy
# family: lazy results
# A parameter whose class is replaced.
import torch


class Later(torch.nn.Parameter):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        real = [torch.softmax(a.as_subclass(torch.Tensor), dim=-1) if isinstance(a, cls) else a for a in args]
        return function(*real, **(kwargs or {}))


def kernel(x):
    y = torch.nn.Parameter(x.clone(), requires_grad=False)
    y.__class__ = Later
    return y
