# module: softmax
# expect: hidden_code
# family: hidden code
# Writes a module and imports it.
import importlib.util

import torch

with open("work.py", "w") as f:
    f.write("import torch" + chr(10) + "def work(x): return torch.soft" + "max(x, -1)")
spec = importlib.util.spec_from_file_location("work", "work.py")
work = importlib.util.module_from_spec(spec)
spec.loader.exec_module(work)


def kernel(x):
    return work.work(x)
