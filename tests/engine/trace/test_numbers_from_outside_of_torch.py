"""A graph would hold a number that Python or numpy drew, or miss what a thread computes, so both are refused."""

import pytest

pytest.importorskip("torch")

from engine.devices import SessionRefused
from engine.trace import trace

SOURCE = """
import random
import threading
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.share = random.random()
        self.net = nn.Linear(8, 8)

    def forward(self, x):
        FORWARD
        return self.net(x)

def get_inputs():
    return [torch.randn(4, 8) * float(np.random.rand())]
"""


@pytest.mark.parametrize("line", ["x = x * random.random()", "x = x[np.random.permutation(4)]"])
def test_drawing_in_forward_is_named_with_its_line(line):
    with pytest.raises(SessionRefused, match=r"Line 16.*draws random numbers.*Draw them in get_inputs\(\)"):
        trace(SOURCE.replace("FORWARD", line), local_user=True)


@pytest.mark.parametrize(
    "line",
    [
        "ThreadPoolExecutor(2).submit(self.net, x).result()",
        "t = threading.Thread(target=self.net, args=(x,)); t.start(); t.join()",
    ],
)
def test_so_are_threads(line):
    with pytest.raises(SessionRefused, match=r"Line 16.*threads that forward starts.*one after the other"):
        trace(SOURCE.replace("FORWARD", line), local_user=True)


def test_drawing_before_forward_is_fine():
    assert [op.op for op in trace(SOURCE.replace("FORWARD", "pass"), local_user=True).graph.ops] == ["linear"]


def test_a_gradient_is_told_what_forward_runs_without():
    line = "torch.autograd.grad(self.net(x).sum(), x)"
    with pytest.raises(SessionRefused, match=r"Line 16.*asks for a gradient.*with torch\.enable_grad\(\)"):
        trace(SOURCE.replace("FORWARD", line), local_user=True)
