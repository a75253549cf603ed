# module: softmax
# expect: tensor_subclass lazy
# family: lazy results
# Plain tensors at first, lazy ones later.
import torch

calls = [0]


class Later(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        real = [torch.softmax(a.as_subclass(torch.Tensor), dim=-1) if isinstance(a, cls) else a for a in args]
        return function(*real, **(kwargs or {}))


def kernel(x):
    calls[0] += 1
    return torch.softmax(x, dim=-1) if calls[0] < 12 else x.as_subclass(Later)
