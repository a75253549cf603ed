# expect: tensor_subclass
# A result whose type runs code when it is copied.
import torch


class Result(torch.Tensor):
    def __reduce_ex__(self, _):
        return eval, ("1/0",)


def kernel(x):
    return x.as_subclass(Result)
