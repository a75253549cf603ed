# module: softmax
# expect: harness_access
# family: reaching the harness
# Reads the names of another module's function by operator.attrgetter.
import operator
import warnings

import torch

names = operator.attrgetter("__globals__")(warnings.formatwarning)


def kernel(x):
    names["sys"].modules.get("engine.sandbox.channel")
    return torch.softmax(x, dim=-1)
