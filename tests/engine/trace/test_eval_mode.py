"""A module is optimised in eval mode, and the session says so where its layers compute something else in training."""

import pytest

pytest.importorskip("torch")

from engine.progress import line
from engine.session import events
from tests.engine.traced import once

SOURCE = """
import torch
import torch.nn as nn

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(LAYERS)
        self.train()

    def forward(self, x):
        return self.net(x)

def get_inputs():
    return [torch.randn(4, 8)]
"""


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ("nn.Linear(8, 8), nn.Dropout(0.1)", "nn.Dropout"),
        ("nn.Linear(8, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.BatchNorm1d(8)", "nn.BatchNorm1d and nn.Dropout"),
        ("nn.Linear(8, 8), nn.Dropout(0.0), nn.LayerNorm(8)", ""),
    ],
)
def test_the_layers_are_named(layers, words):
    traced = once(SOURCE.replace("LAYERS", layers), local_user=True)
    note = f"The module runs in eval mode. In training, {words} would compute something else."
    assert traced.note == (note if words else "") and not {"dropout"} & {op.op for op in traced.graph.ops}


def test_the_command_line_says_so():
    text = line(events.Traced("", 3, 0.1, "", "The module runs in eval mode."))
    assert text == "3 operations, traced in 0.1 s. The module runs in eval mode."
    assert line(events.Traced("", 3, 0.1)) == "3 operations, traced in 0.1 s"
