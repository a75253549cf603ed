"""A module may return the same values twice; the region before them keeps its program, and PyTorch copies them."""

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F

from engine.strategies.planner.regions.partition import partition
from tests.engine.strategies.functions import traced

LINEAR = nn.Linear(64, 128).eval().requires_grad_(False)


def twice(x):
    y = LINEAR(x)
    return F.relu(y), F.relu(y)


def dropped_out(x):
    y = torch.tanh(LINEAR(x))
    return y, F.dropout(y, 0.1, training=False) + 0


def in_another_type(x):
    y = torch.tanh(LINEAR(x))
    return y, y.to(torch.float16)


@pytest.mark.parametrize(("function", "rest"), [(twice, "relu"), (dropped_out, "add"), (in_another_type, "to")])
def test_the_region_before_has_a_program(function, rest):
    regions = partition(traced(function, torch.randn(32, 64)))
    assert ["linear" in {op.op for op in region.graph.ops} for region in regions.regions] == [True]
    assert [u.op for u in regions.uncovered] == [rest]
    assert "returns each once" in regions.uncovered[0].why
