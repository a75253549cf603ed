"""Op graphs of plain functions, traced in the test's own process."""

import json

import torch
from torch import nn

from engine.evaluate.correctness import oracle
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


def assert_means(program, region, graph: OpGraph, function, inputs: list) -> None:
    """The program of a region that is all of a function computes, in float64, what the function does."""
    tensors = dict(zip(graph.inputs, inputs, strict=True))
    bound = [tensors[b.tensor].double().reshape(b.shape) for b in region.lowered.inputs]
    (y,) = oracle.run(program, bound, exact=True)
    expected = function(*(x.double() for x in inputs))
    torch.testing.assert_close(y.reshape(expected.shape), expected)
