"""One tensor may be given for several inputs: in the graph they are several."""

import pytest

pytest.importorskip("torch")

from engine.devices import SessionRefused
from engine.trace import trace

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, a, b):
        FORWARD

def get_inputs():
    return [torch.randn(4, 8)] * 2
"""


def traced(forward: str):
    return trace(SOURCE.replace("FORWARD", forward), local_user=True).graph


def test_each_input_is_read_where_it_stands():
    graph = traced("return a + 2 * b")
    first, second = graph.inputs
    mul, add = graph.ops
    assert mul.inputs == (second,) and add.inputs == (first, mul.outputs[0])


def test_a_write_to_one_would_be_a_write_to_the_other():
    with pytest.raises(SessionRefused, match=r"give a copy of it, such as x\.clone\(\)"):
        traced("a.add_(1); return a + 2 * b")
