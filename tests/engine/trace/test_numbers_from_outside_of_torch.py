"""A graph would hold a number that Python or numpy drew, or miss what a thread computes, so both are refused."""

import pytest

pytest.importorskip("torch")

from engine.devices import SessionRefused
from engine.trace import trace

SOURCE = """
import datetime
import os
import random
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.share, self.own = random.random(), np.random.default_rng(0)
        self.net = nn.Linear(8, 8)

    def forward(self, x):
        FORWARD
        return self.net(x)

def get_inputs():
    return [torch.randn(4, 8) * float(np.random.rand())]
"""


@pytest.mark.parametrize("line", ["x = x * random.random()", "x = x[np.random.permutation(4)]"])
def test_drawing_in_forward_is_named_with_its_line(line):
    with pytest.raises(SessionRefused, match=r"Line 20.*draws random numbers.*Draw them in get_inputs\(\)"):
        trace(SOURCE.replace("FORWARD", line), local_user=True)


@pytest.mark.parametrize(
    "line",
    [
        "ThreadPoolExecutor(2).submit(self.net, x).result()",
        "t = threading.Thread(target=self.net, args=(x,)); t.start(); t.join()",
    ],
)
def test_so_are_threads(line):
    with pytest.raises(SessionRefused, match=r"Line 20.*threads that forward starts.*one after the other"):
        trace(SOURCE.replace("FORWARD", line), local_user=True)


@pytest.mark.parametrize(
    "line",
    [
        "x = x * time.time()",
        "x = x * (int(time.time()) % 2)",
        "x = x + torch.tensor(time.perf_counter())",
        "x = x if datetime.datetime.now().second == 60 else x * datetime.date.today().weekday()",
        "x = x * secrets.randbelow(2**40)",
        'x = x * int.from_bytes(os.urandom(6), "big")',
        "x = x * float(self.own.random())",
    ],
)
def test_a_result_that_depends_on_a_clock_or_a_generator_of_its_own_is_refused(line):
    with pytest.raises(SessionRefused, match=r"Line 20.*computes with the time.*as another input\.") as refusal:
        trace(SOURCE.replace("FORWARD", line), local_user=True)
    assert refusal.value.code == "random" and refusal.value.line == 20


@pytest.mark.parametrize(
    "line",
    [
        "print(time.time(), datetime.datetime.now())",
        "self.seen = time.perf_counter()",
        "x = x * float(np.random.default_rng(0).random())",
    ],
)
def test_a_time_that_no_result_depends_on_is_fine_and_so_is_a_fresh_generator_with_a_seed(line):
    assert trace(SOURCE.replace("FORWARD", line), local_user=True).graph.ops[-1].op == "linear"


def test_drawing_before_forward_is_fine():
    assert [op.op for op in trace(SOURCE.replace("FORWARD", "pass"), local_user=True).graph.ops] == ["linear"]


def test_a_gradient_is_told_what_forward_runs_without():
    line = "torch.autograd.grad(self.net(x).sum(), x)"
    with pytest.raises(SessionRefused, match=r"Line 20.*asks for a gradient.*with torch\.enable_grad\(\)"):
        trace(SOURCE.replace("FORWARD", line), local_user=True)
