"""Convolutions on the tensor cores without a copy before or after: which programs the planner writes, and how many
builds it may spend on them."""

from dataclasses import replace

import pytest

from dsl.check.program import check
from dsl.ir import Conv, Transform
from dsl.printer import to_text
from engine.classes import class_of, roof_of
from engine.devices import Problem
from engine.strategies.api import Finished, State
from engine.strategies.planner.lowering.choice import Choice
from engine.strategies.planner.lowering.lower import lower
from engine.strategies.planner.lowering.pipeline import program
from engine.strategies.planner.planner import CPP_TRIALS
from engine.strategies.planner.search import build_cost
from engine.strategies.planner.search.structures import WAIT_MS, prediction, structures
from sol.hardware import load
from tests.engine.graphs import Builder
from tests.engine.planning import planned

H200 = load("h200")
ROWS = Choice(rows=True)


def convolution(g, x, w, out, **attrs):
    return g.op("conv2d", [x, w], out, **attrs)


def image(batch=8, channels=8, filters=32):
    g = Builder()
    x, w = g.input("x", (batch, channels, 66, 66)), g.parameter("w", (filters, channels, 3, 3))
    return g, convolution(g, x, w, (batch, filters, 64, 64))


def lowered(graph, cls="tf32", choice=ROWS):
    text = to_text(program(lower(graph), cls, choice))
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return checked.program


@pytest.mark.parametrize("cls", ["tf32", "f16", "bf16"])
def test_operands_and_result_are_the_modules_own_and_the_class_is_the_precision(cls):
    g, y = image()
    p = lowered(g.graph(g.op("relu", [y], (8, 32, 64, 64))), cls)
    (stage,) = p.stages
    assert isinstance(stage, Conv) and stage.config.compute.value == cls
    assert [o.name for o in stage.operands] == ["x", "w"]


def transposed(stride, out):
    g = Builder()
    x, w = g.input("x", (8, 48, 32, 32)), g.parameter("w", (48, 40, 3, 3))
    y = g.op("conv_transpose2d", [x, w], (8, 40, out, out), stride=[stride, stride])
    return g.graph(g.op("relu", [y], (8, 40, out, out)))


@pytest.mark.parametrize("cls", ["tf32", "f16"])
def test_a_transposed_one_of_stride_1_is_read_as_it_lies_too(cls):
    (stage,) = lowered(transposed(1, 34), cls).stages
    assert stage.transposed and stage.config.compute.value == cls and [o.name for o in stage.operands] == ["x", "w"]
    assert {s.rows for s in structures(lower(transposed(1, 34)), cls, H200, [])} == {False, True}


def test_a_transposed_one_with_a_stride_stays_as_it_was():
    graph = transposed(2, 65)
    assert to_text(program(lower(graph), "tf32", ROWS)) == to_text(program(lower(graph), "tf32", Choice()))


def test_what_follows_reads_channels_first():
    g, y = image()
    z = g.op("max_pool2d", [y], (8, 32, 32, 32), kernel_size=[2, 2])
    p = lowered(g.graph(z), "f16")
    assert [type(s).__name__ for s in p.stages] == ["Conv", "Pool"]
    assert all(s.type.layout == "nchw" for s in p.stages) and p.stages[0].type.dtype.value == "f32"


def test_depthwise_then_pointwise_has_no_pass_between():
    g = Builder()
    x, w = g.input("x", (4, 64, 32, 32)), g.parameter("dw", (64, 1, 3, 3))
    h = convolution(g, x, w, (4, 64, 30, 30), groups=64)
    y = convolution(g, h, g.parameter("pw", (128, 64, 1, 1)), (4, 128, 30, 30))
    p = lowered(g.graph(y))
    assert [s.config.compute.value for s in p.stages] == ["f32", "tf32"]


def test_a_convolution_in_groups_stays_as_it_was():
    g = Builder()
    x, w = g.input("x", (4, 64, 32, 32)), g.parameter("w", (64, 32, 3, 3))
    graph = g.graph(convolution(g, x, w, (4, 64, 30, 30), groups=2))
    assert to_text(program(lower(graph), "tf32", ROWS)) == to_text(program(lower(graph), "tf32", Choice()))


def test_one_matrix_times_each_of_a_batch_is_a_convolution_of_one_tap():
    g = Builder()
    y = g.op("matmul", [g.parameter("w", (48, 32)), g.input("x", (4, 32, 100))], (4, 48, 100))
    (stage,) = lowered(g.graph(y)).stages
    assert isinstance(stage, Conv) and stage.spatial == 1 and stage.x.name == "x"
    assert any(isinstance(s, Transform) for s in lowered(g.graph(y), choice=Choice()).stages)


@pytest.mark.parametrize("cls", ["tf32", "f16"])
def test_both_kinds_of_kernel_are_among_the_structures_whatever_the_model_expects(cls):
    for channels, filters in ((8, 32), (512, 512)):
        g, y = image(64, channels, filters)
        z = g.op("max_pool2d", [y], (64, filters, 32, 32), kernel_size=[2, 2])
        drafts = structures(lower(g.graph(z)), cls, H200, [])
        assert {s.rows for s in drafts} == {False, True}
        assert drafts[0].rows is (channels == 8)
        assert len({s.words for s in drafts}) == len(drafts)


def test_a_program_of_our_own_kernels_costs_a_fifth_of_one_over_cutlass():
    g, y = image()
    graph = g.graph(y)
    own, cutlass = lowered(graph), lowered(graph, choice=Choice())
    assert build_cost.cost(own, "cpp") == build_cost.OWN < build_cost.cost(cutlass, "cpp") == build_cost.WHOLE
    assert build_cost.cost(lowered(graph, "f16", Choice()), "cute") == 0


def test_where_builds_take_time_a_search_tries_more_of_what_builds_quickly():
    g, y = image(64)
    strategy = planned(Problem("", "module", g.graph(y)), ("tf32",), H200, "measured")
    trials, spent = [], 0.0
    while (p := strategy.next(State(tuple(trials), 40))) is not None and len(trials) < 40:
        trials.append(Finished(len(trials) + 1, p.text, p.cls, p.backend, ms=p.predicted_ms))
        spent += build_cost.cost(check(p.text).program, p.backend)
    assert len(trials) > 2 * CPP_TRIALS and spent <= CPP_TRIALS + 1e-6


def test_in_class_tf32_its_f16_under_a_guard_stands_beside_it():
    g, y = image(64)
    graph = g.graph(g.op("relu", [y], (64, 32, 64, 64)))
    by_kind = {(s.rows, s.base.guard): s for s in structures(lower(graph), "tf32", H200, [])}
    own, twin = by_kind[True, False], by_kind[True, True]
    assert twin.backend == "cpp" and [s.config.compute.value for s in twin.base.stages] == ["f16"]
    assert twin.words == "images read as they lie, tf32 by guarded f16"
    assert class_of(twin.base) == "tf32" and roof_of(twin.base) == "f16"
    waits = twin.ms - prediction(replace(twin.base, guard=False), H200).ms
    assert 2 * WAIT_MS < waits < 2 * WAIT_MS + 0.2 * twin.ms  # its rescue kernel and flag, and its looks at boxes
    assert own.ms != twin.ms
    proposed = [p for p in search(graph) if "guard f32" in p.text and p.backend == "cpp"]
    assert proposed and all(p.cls == "tf32" for p in proposed)
    assert proposed[0].why.endswith("under a guard (all again in tf32 or f32 where f16 lacks their range), timed")


def search(graph, trials=8):
    strategy, done = planned(Problem("", "module", graph), ("tf32",), H200, "modelled"), []
    while len(done) < trials and (p := strategy.next(State(tuple(done), trials))) is not None:
        done.append(Finished(len(done) + 1, p.text, p.cls, p.backend, ms=p.predicted_ms))
        yield p


def test_every_region_gets_a_program_whatever_its_builds_take(monkeypatch):
    """A network of which each part takes nvcc a whole build, between operations that stay PyTorch."""
    monkeypatch.setattr(build_cost, "cost", lambda program, backend: build_cost.WHOLE)
    regions, g = CPP_TRIALS + 3, Builder()
    y = g.input("x", (64, 8, 66, 66))
    for number in range(regions):
        shape = (64, 8, 66, 66)
        y = g.op("logcumsumexp", [y], shape, dim=1)
        w = g.parameter(f"w{number}", (8, 8, 3, 3))
        y = convolution(g, y, w, shape, padding=(1, 1))
    strategy = planned(Problem("", "module", g.graph(y)), ("tf32",), H200, "measured")
    assert len(strategy.problem.regions) == regions
    trials = []
    while len(trials) < regions:
        p = strategy.next(State(tuple(trials), 40))
        number = strategy.problem.region(p.text)
        trials.append(Finished(len(trials) + 1, p.text, p.cls, p.backend, ms=p.predicted_ms, region=number))
    assert {t.region for t in trials} == set(range(1, regions + 1))
    assert {t.backend for t in trials} == {"cpp"}
