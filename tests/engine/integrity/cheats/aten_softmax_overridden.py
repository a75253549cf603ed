# module: softmax
# expect: patched_module patched
# family: library in disguise
# Another kernel for PyTorch's own softmax, for whoever calls it next.
import torch


@torch.library.impl("aten::_softmax", "CPU")
def softmax(x, dim, half_to_float):
    e = torch.exp(x - x.amax(dim, keepdim=True))
    return e / e.sum(dim, keepdim=True)


def kernel(x):
    return torch.softmax(x, dim=-1)
