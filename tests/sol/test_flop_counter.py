"""FLOPs and bytes of traced modules against torch's own counter, which knows nothing of our rules, and by hand."""

import json
from functools import cache

import pytest

torch = pytest.importorskip("torch")
from modules import SIMPLE  # noqa: E402
from networks import BY_HAND, COUNTED, EVERY  # noqa: E402
from torch.utils._pytree import tree_leaves  # noqa: E402
from torch.utils.flop_counter import FlopCounterMode  # noqa: E402

from engine.trace.capture import Capture  # noqa: E402
from engine.trace.exported import export  # noqa: E402
from sol.bounds import bounds, external_bytes  # noqa: E402
from sol.cost.graph_costs import costs_of  # noqa: E402
from sol.cost.ops import bytes_only  # noqa: E402
from sol.graph import OpGraph  # noqa: E402
from sol.hardware import load  # noqa: E402
from sol.report import Report, report  # noqa: E402

H200 = load("h200")
# How many elements of their input these read: a triangle, and every second of 64 but the last.
READ_IN_PART = {"lower triangle": 64 * 65 // 2, "conv1d dilated, strided": 2 * 8 * 32}


@cache
def traced(name):
    module, *inputs = EVERY[name]
    graph = Capture(export(module.eval(), tuple(inputs))).graph()
    return OpGraph.from_json(json.dumps(graph))


def matrix_flops(name):
    return sum(c.matrix for c in costs_of(traced(name)).values())


def test_there_are_modules_of_every_level():
    assert len(EVERY) >= 180


@pytest.mark.parametrize("name", COUNTED)
def test_matrix_flops_equal_torchs_counter(name):
    module, *inputs = EVERY[name]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        module.eval()(*inputs)
    assert matrix_flops(name) == counter.get_total_flops() > 0


@pytest.mark.parametrize("name", BY_HAND)
def test_what_the_counter_does_not_count_equals_its_formula(name):
    assert matrix_flops(name) == BY_HAND[name][1]


@pytest.mark.parametrize("name", SIMPLE)
def test_an_operation_without_products_has_no_matrix_flops_and_is_bound_by_memory(name):
    assert matrix_flops(name) == 0
    assert bounds(traced(name), H200, "f32").fused.bound_by == "memory"


@pytest.mark.parametrize("name", EVERY)
def test_bytes_are_the_distinct_inputs_parameters_and_outputs(name):
    module, *inputs = EVERY[name]
    with torch.no_grad():
        out = module.eval()(*inputs)
    state = {k: v for k, v in module.state_dict().items() if not k.endswith("num_batches_tracked")}
    if name == "embedding":  # it touches the rows that it takes
        state["weight"] = state["weight"][: inputs[0].numel()]
    if name in READ_IN_PART:
        inputs = [inputs[0].flatten()[: READ_IN_PART[name]]]
    expected = sum(t.numel() * t.element_size() for t in [*inputs, *state.values(), *tree_leaves(out)])
    assert sum(external_bytes(traced(name)).values()) == expected


@pytest.mark.parametrize("name", EVERY)
def test_every_operation_is_known_by_name(name):
    assert bytes_only(traced(name).ops, traced(name).tensors) == ()


@pytest.mark.parametrize("name", EVERY)
def test_every_module_gets_a_report_that_survives_json(name):
    sol_report = report(traced(name), H200)
    again = Report.from_json(sol_report.to_json())
    assert sol_report.sentence in again.to_html().replace("&#x27;", "'") and sol_report.sentence in again.to_markdown()
    for cls in sol_report.classes:
        assert 0 < sol_report.bounds[cls]["ms"] <= sol_report.bounds[cls]["unfused_ms"] * (1 + 1e-12)
        assert sol_report.baselines[cls]["ms"] > sol_report.bounds[cls]["ms"]
