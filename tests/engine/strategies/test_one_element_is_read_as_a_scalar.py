"""A stage's result of one element, such as a gate, scales a tensor of any shape."""

import pytest

from dsl.check.program import check
from dsl.printer import to_text
from engine.strategies.planner.lowering.lower import lower
from tests.engine.graphs import Builder


def gated(shape, *, squeezed):
    """y * tanh(gate): gate of `shape`, seen without axes before or not."""
    g = Builder()
    y, gate = g.input("y", (8, 16)), g.parameter("gate", shape)
    t = g.op("tanh", [gate], shape)
    seen = g.op("squeeze", [t], ()) if squeezed else t
    return g.graph(g.op("mul", [y, seen], (8, 16)), t)


@pytest.mark.parametrize("squeezed", [False, True])
@pytest.mark.parametrize("shape", [(1,), (1, 1), (1, 1, 1, 1)])
def test_a_gate_computed_in_a_stage(shape, squeezed):
    text = to_text(lower(gated(shape, squeezed=squeezed)).program("tf32"))
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]


def test_a_linear_layer_of_one_output():
    g = Builder()
    x, w, y = g.input("x", (1, 16)), g.parameter("w", (1, 16)), g.input("y", (8, 16))
    gate = g.op("sigmoid", [g.op("linear", [x, w], (1, 1))], (1, 1))
    text = to_text(lower(g.graph(g.op("mul", [y, gate], (8, 16)))).program("tf32"))
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
