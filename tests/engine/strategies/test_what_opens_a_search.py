"""A search begins with every choice left to the compiler, or with a tile into which what follows the product fits."""

import pytest

from engine.devices import Problem
from engine.strategies.api import State
from sol.hardware import load
from tests.engine.planning import planned
from tests.engine.traced import once

MODULE = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.ConvTranspose2d(64, 128, 4, stride=2, padding=1, output_padding=1)
    def forward(self, x):
        return {after}
def get_inputs(): return [torch.randn(128, 64, 64, 64)]
"""


@pytest.mark.parametrize(
    ("after", "opens"),
    [
        # Every channel in a tile: the softmax needs no pass of its own.
        ("torch.sigmoid(torch.softmax(self.conv(x), 1) * 2.0)", "tile 64x256x64, "),
        ("torch.relu(self.conv(x))", "every choice left to the compiler"),
    ],
)
def test_a_tile_that_holds_what_follows_is_tried_first(after, opens):
    graph = once(MODULE.replace("{after}", after)).graph
    first = planned(Problem("", "module", graph), ("f16",), load("h200")).next(State())
    assert first.change.startswith(opens)
