# module: softmax
# expect: tensor_subclass lazy
# family: lazy results
# A tensor that computes when somebody reads it.
import torch


class Lazy(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        real = [torch.softmax(a.as_subclass(torch.Tensor), dim=-1) if isinstance(a, cls) else a for a in args]
        return function(*real, **(kwargs or {}))


def kernel(x):
    return x.as_subclass(Lazy)
