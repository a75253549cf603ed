"""A session of a module that wrote its own trace ends as refused, not as a mistake of the engine."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from engine.session import events
from engine.session.runner import run
from sol.graph import Op, OpGraph, Tensor
from tests.engine.counting import CountingDevice, spec


def graph(**changes):
    x, y = (Tensor(n, (2, 4, 8, 8), "f32", k) for n, k in (("x", "input"), ("y", "intermediate")))
    op = replace(Op("pool", "max_pool2d", ("x",), ("y",), {"kernel_size": [2, 2], "stride": [2, 2]}), **changes)
    return OpGraph({"x": x, "y": replace(y, shape=(2, 4, 4, 4))}, (op,), ("x",), ("y",))


def played(answer):
    source = "class Model: ..."
    traced = SimpleNamespace(graph=answer, title="a pool")
    emitted = run(spec(source=source, source_kind="module"), device=CountingDevice(), tracer=lambda *_, **__: traced)
    return [e.event for e in emitted]


@pytest.mark.parametrize(
    "changes",
    [
        {"op": "linear", "inputs": ()},
        {"op": "group_norm", "attrs": {"num_groups": "x"}},
        {"op": "_softmax", "inputs": (), "attrs": {"dim": 10**9}},
        {"op": "linear"},
        {"op": "conv2d"},
    ],
)
def test_a_trace_without_a_report_is_a_refusal(changes):
    ended = played(graph(**changes))[-1]
    assert (ended.state, ended.code) == ("refused", "garbled") and "The module's trace is garbled" in ended.reason


@pytest.mark.parametrize(
    "changes",
    [
        {"op": "cumsum", "attrs": {}},
        {"op": "cumsum", "attrs": {"dim": [1]}},
        {"op": "cat", "attrs": {"dim": [1]}},
    ],
)
def test_a_trace_that_the_planner_cannot_read_is_a_refusal(changes):
    log = played(graph(**changes))
    assert any(isinstance(e, events.Reported) for e in log), "each has a report"
    ended = log[-1]
    assert (ended.state, ended.code) == ("refused", "garbled")
    assert "no program can be planned for it" in ended.reason and "the mistake is ours" in ended.reason


def test_the_forged_window_of_nearly_2_to_the_40_has_a_report():
    log = played(graph(attrs={"kernel_size": 2**40 - 1, "stride": [], "padding": [0, 0], "dilation": [1, 1]}))
    assert any(isinstance(e, events.Reported) for e in log) and log[-1].code != "engine_error"
