"""Op graphs of plain functions, traced in the test's own process."""

import json

from torch import nn

from engine.trace.capture import Capture
from engine.trace.exported import export
from sol.graph import OpGraph


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def traced(function, *inputs) -> OpGraph:
    """The graph of `function(*inputs)`, whose inputs are tensors."""
    return OpGraph.from_json(json.dumps(Capture(export(Model(function).eval(), inputs)).graph()))
