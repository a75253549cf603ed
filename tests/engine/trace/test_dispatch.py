"""A dispatch mode of ours sees every operation, and does not import PyTorch's compiler."""

import subprocess
import sys

PROGRAM = """
import sys, torch
from engine.evaluate.reference.pytorch_classes import truncating, widening
from engine.trace.dispatch import DispatchMode
class Names(DispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        names.append(func.name())
        return func(*args, **(kwargs or {}))
names = []
with Names():
    torch.ones(2) + 1
with widening():
    wide = torch.ones(2).to(torch.float16)
with truncating():
    torch.ones(2, 2) @ torch.ones(2, 2)
assert names == ["aten::ones", "aten::add.Tensor"], names
assert wide.dtype == torch.float64
assert "torch._dynamo" not in sys.modules
"""


def test_it_sees_operations_without_torch_dynamo():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
