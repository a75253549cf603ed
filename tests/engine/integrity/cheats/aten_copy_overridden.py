# module: softmax
# expect: patched_module patched
# family: library in disguise
# Another kernel for aten::copy_, which computes when the harness reads.
import torch

library = torch.library.Library("aten", "IMPL")
state = {}


def copy_(self, source, non_blocking=False):
    value = source.numpy()
    if state.pop(source.data_ptr(), None):
        e = (source.detach().exp)()
        value = (e / e.sum(-1, keepdim=True)).numpy()
    self.numpy()[...] = value
    return self


def kernel(x):
    if not state:
        state["ready"] = library
    return torch.softmax(x, dim=-1)


library.impl("copy_", copy_, "CPU")
