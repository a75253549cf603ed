"""A generous budget, as for recorded sessions that are replayed: every trial is made, no stop rule ends it."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as to_sources
from engine.bench.run.plan import ahead, finished, plan
from sol.hardware import load
from tests.engine.graphs import Builder, linear

H200 = load("h200")
MANY = 16


def convolution():
    g = Builder()
    x, w = g.input("x", (128, 64, 128, 128)), g.parameter("conv.weight", (128, 64, 3, 3))
    y = g.op("conv2d", [x, w, g.parameter("conv.bias", (128,))], (128, 128, 126, 126), stride=[1, 1], padding=[0, 0],
             dilation=[1, 1], groups=1)  # fmt: skip
    return g.graph(g.op("relu", [y], (128, 128, 126, 126)))


GRAPHS = {"product": linear([("relu", {})], rows=1024, k=8192, n=8192), "convolution": convolution()}


@pytest.mark.parametrize("name", GRAPHS)
def test_as_many_different_programs_as_wanted_and_each_can_be_built(name):
    planner = plan(name, GRAPHS[name], ("f16",), H200).planners["f16"]
    found = ahead(planner, [], MANY)
    texts = [p.text for p in found]
    assert len(set(texts)) == MANY and {p.cls for p in found} == {"f16"}
    for p in found:
        assert p.backend in to_sources(check(p.text).program, H200.sms).sources


def test_a_later_call_goes_on_after_trials_that_are_near_the_limit_and_stalled():
    """What ends a session of the engine (sol.budget) ends no bench: its sessions are there to be cut in replay."""
    made = plan("product", GRAPHS["product"], ("f16",), H200)
    planner, limit = made.planners["f16"], made.limits["f16"]
    first = ahead(planner, [], MANY)
    rows = [{"text": p.text, "class": "f16", "backend": p.backend, "ok": True, "ms": 1.01 * limit} for p in first]
    more = ahead(planner, rows, 8)
    assert len(finished(rows)) == MANY and len(more) == 8
    assert not {p.text for p in more} & {p.text for p in first}
