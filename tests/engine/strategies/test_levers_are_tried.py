"""Every lever that the report recommends, the planner tries within one session's budget."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "sol"))
from suite59 import Builder, gemm_problem

from dsl.check.program import check
from dsl.resolve import resolve
from engine.devices import Problem
from engine.strategies.api import Finished, State
from sol.hardware import load
from sol.lever_check import tried
from sol.levers import levers
from tests.engine.planning import planned

H200 = load("h200")
# An idle chip, rows that are not aligned, a tail, a tail with a reduction, a tail with a norm.
PROBLEMS = {
    "L1/6": "split_k",
    "L1/8": "align",
    "L2/12": "fuse_tail",
    "L2/22": "fuse_pointwise",
    "L2/30": "fuse_pointwise",
}


def tried_by_planner(graph, trials=24):
    """Class -> the actions that its trials show, times as predicted."""
    planner = planned(Problem("", "module", graph, 0), ("tf32", "f16"), H200, "predicted")
    done, actions = [], {}
    for number in range(1, trials + 1):
        proposal = planner.next(State(tuple(done), trials, {}))
        if proposal is None:
            break
        program = resolve(check(proposal.text).program, H200.sms)
        actions.setdefault(proposal.cls, set()).update(tried(program))
        done.append(Finished(number, proposal.text, proposal.cls, proposal.backend, ms=proposal.predicted_ms))
    return actions


@pytest.mark.parametrize("pid", PROBLEMS)
def test_each_lever_of_the_report_is_tried_in_its_class(pid):
    graph = gemm_problem(pid)
    actions = tried_by_planner(graph)
    for cls in ("tf32", "f16"):
        recommended = {lever.action for lever in levers(graph, H200, cls, ())}
        assert PROBLEMS[pid] in recommended
        assert recommended <= actions[cls]


def test_a_lower_class_that_is_allowed_is_searched():
    graph = gemm_problem("L2/12")
    lower = [lever for lever in levers(graph, H200, "tf32", ("tf32", "f16")) if lever.action == "lower_class"]
    assert lower and "lower_class" in tried_by_planner(graph, 6)["f16"]


def test_a_convolution_is_tried_in_channels_last_with_its_tail():
    b = Builder()
    attrs = {"stride": [1, 1], "padding": [0, 0], "dilation": [1, 1], "groups": 1}
    x, w, bias = b.input("x", 16, 64, 128, 128), b.param("w", 128, 64, 3, 3), b.param("b", 128)
    y = b.op("relu", b.op("conv2d", x, w, bias, shape=(16, 128, 126, 126), **attrs))
    graph = b.done(y)
    recommended = {lever.action for lever in levers(graph, H200, "tf32", ())}
    assert {"channels_last", "fuse_tail"} <= recommended <= tried_by_planner(graph, 12)["tf32"]


def between(*steps):
    """A product behind a ReLU, with a copy between the two: transposed and made contiguous, or of another type."""
    b = Builder()
    y = b.op("relu", b.input("x", 4096, 2048))
    for step in steps:
        y = b.t(y) if step == "t" else b.op(step, y)
    return b.done(b.linear(y, 1024))


@pytest.mark.parametrize("steps", [("t", "contiguous"), ("clone",)])
def test_a_copy_between_operations_is_dropped(steps):
    graph = between(*steps)
    actions = tried_by_planner(graph, 12)
    assert "drop_copy" in {lever.action for lever in levers(graph, H200, "tf32", ())} <= actions["tf32"]


def test_a_last_wave_with_little_to_do_is_filled():
    b = Builder()
    graph = b.done(b.op("relu", b.linear(b.input("x", 1536, 4096), 1536)))  # 144 tiles of 128x128 on 132 SMs
    actions = tried_by_planner(graph)
    for cls in ("tf32", "f16"):
        assert "stream_k" in {lever.action for lever in levers(graph, H200, cls, ())} <= actions[cls]
