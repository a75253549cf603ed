"""addcmul, addcdiv and lerp are arithmetic in an epilogue."""

import pytest

from dsl.check.program import check
from dsl.printer import to_text
from engine.strategies.planner.lowering.lower import lower
from tests.engine.graphs import Builder

WRITTEN = {
    "addcmul": ({"value": 0.5}, "acc + a[n] * b[n] * 0.5"),
    "addcdiv": ({}, "acc + a[n] / b[n]"),
    "lerp": ({"weight": 0.25}, "acc + (a[n] - acc) * 0.25"),
    "lerp of a tensor": ({}, "acc + b[n] * (a[n] - acc)"),
}


@pytest.mark.parametrize("name", WRITTEN)
def test_it_is_written_in_the_epilogue(name):
    attrs, words = WRITTEN[name]
    op, g = name.split()[0], Builder()
    x, w, a, b = g.input("x", (64, 32)), g.parameter("w", (48, 32)), g.parameter("a", (48,)), g.parameter("b", (48,))
    y = g.op("linear", [x, w], (64, 48))
    inputs = [y, a] if "weight" in attrs else [y, a, b]
    text = to_text(lower(g.graph(g.op(op, inputs, (64, 48), **attrs))).program("tf32"))
    assert check(text).ok, [d.render(text) for d in check(text).diagnostics]
    assert f"epilogue {words}\n" in text
