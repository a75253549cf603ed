"""Batch norm leaves the tracer as `batch_norm`, whatever spelling the release of PyTorch or the module's rest gives."""

import json

import pytest
import torch

from engine.evaluate.candidate.aten import operation
from engine.trace import capture
from engine.trace.exported import export
from engine.trace.names.spellings import BATCH_NORMS, composite, composites
from sol.cost.ops import cost
from sol.graph import Op, OpGraph

TENSORS = ("input", "weight", "bias", "running_mean", "running_var")
VALUES = {"training": False, "momentum": 0.1, "exponential_average_factor": 0.1, "eps": 1e-3, "epsilon": 1e-3,
          "cudnn_enabled": True}  # fmt: skip
SHAPES = {"input": (4, 8, 6, 6)}
CPU = {"batch_norm", "native_batch_norm", "_native_batch_norm_legit", "_native_batch_norm_legit_no_training",
       "_batch_norm_impl_index", "_batch_norm_no_update"}  # fmt: skip


def overloads():
    """(spelling, overload) of every functional one that this PyTorch has."""
    for name in sorted(BATCH_NORMS):
        packet = getattr(torch.ops.aten, name, None)
        for overload in packet.overloads() if packet else ():
            if not overload.endswith("out"):
                yield pytest.param(getattr(packet, overload), id=f"{name}.{overload}")


OVERLOADS = list(overloads())


def entry(overload, **without):
    """The operation as engine.trace.capture writes it; `without`: arguments that are None."""
    names = [a.name for a in overload._schema.arguments]
    inputs = [n for n in names if n in TENSORS and n not in without]
    attrs = {n: VALUES[n] for n in names if n in VALUES} | {n: None for n in names if n in without}
    results = [f"y{i}" for i in range(len(overload._schema.returns))]
    return {"name": "norm", "op": overload._schema.name.split("::")[1], "inputs": inputs, "outputs": results,
            "attrs": attrs, "line": 3, "module": ""}  # fmt: skip


@pytest.mark.parametrize("overload", OVERLOADS)
def test_every_spelling_becomes_batch_norm_with_its_arguments_in_order(overload):
    op = composite(entry(overload), {"y0"})
    statistics = [n for n in TENSORS if n in [a.name for a in overload._schema.arguments]]
    assert (op["op"], op["inputs"], op["outputs"]) == ("batch_norm", statistics, ["y0"])
    expected = {"training": False, "momentum": 0.1, "eps": 1e-3, "cudnn_enabled": True}
    assert op["attrs"] == expected | {n: None for n in TENSORS if n not in statistics}
    assert (op["name"], op["line"]) == ("norm", 3)


@pytest.mark.parametrize("without", [{}, {"weight": None, "bias": None}, {"bias": None}])
@pytest.mark.parametrize("overload", OVERLOADS)
def test_what_runs_beside_regions_gives_the_same_numbers(overload, without):
    if overload._schema.name.split("::")[1] not in CPU or overload._overloadname == "no_stats":
        pytest.skip("PyTorch computes this on a GPU or in training mode only")
    op_entry = entry(overload, **without)
    torch.manual_seed(0)
    values = {n: torch.randn(SHAPES.get(n, (8,))).abs() + 0.1 for n in TENSORS}
    arguments = [None if n in without else values.get(n, VALUES.get(n)) for n in
                 (a.name for a in overload._schema.arguments)]  # fmt: skip
    theirs = overload(*arguments)
    theirs = theirs if isinstance(theirs, torch.Tensor) else theirs[0]
    op = composite(op_entry, {"y0"})
    known = Op("norm", op["op"], tuple(op["inputs"]), tuple(op["outputs"]), op["attrs"])
    (ours,) = operation(known, "cpu")([values[n] for n in op["inputs"]])
    torch.testing.assert_close(ours, theirs)


def test_a_batch_norm_whose_statistics_are_read_stays_as_it_is():
    op = entry(torch.ops.aten.native_batch_norm.default)
    assert composite(op, {"y0", "y1"}) is op


@pytest.mark.parametrize("overload", OVERLOADS)
def test_every_spelling_costs_the_same(overload):
    """`python -m sol report` takes graphs of any tracer."""
    op = entry(overload)
    if "running_mean" not in op["inputs"]:
        pytest.skip("without statistics it is training")
    shapes = {**{n: SHAPES.get(n, (8,)) for n in TENSORS}, "y0": SHAPES["input"]}
    tensors = [{"name": n, "shape": s, "dtype": "f32", "kind": "input", "path": ""} for n, s in shapes.items()]
    spelled = {**op, "outputs": ["y0"]}
    costs = []
    for one in (spelled, composite(spelled, {"y0"})):
        raw = {"tensors": tensors, "ops": [one], "inputs": list(TENSORS), "outputs": ["y0"]}
        graph = OpGraph.from_json(json.dumps(raw))
        costs.append(cost(graph.ops[0], graph.tensors))
    assert costs[0] == costs[1] and costs[0].vector == 2 * 4 * 8 * 6 * 6


class Norms(torch.nn.Module):
    def __init__(self, inplace):
        super().__init__()
        self.layers = torch.nn.ModuleList(
            [torch.nn.BatchNorm2d(8), torch.nn.BatchNorm2d(8, affine=False), torch.nn.GroupNorm(2, 8),
             torch.nn.BatchNorm2d(8, track_running_stats=False), torch.nn.InstanceNorm2d(8)]
        )  # fmt: skip
        self.relu, self.last = torch.nn.ReLU(inplace), torch.nn.LayerNorm(6)

    def forward(self, x):
        for layer in self.layers:
            x = self.relu(layer(x))
        return self.last(x)


def test_an_operation_in_place_changes_no_name_of_a_norm():
    x = (torch.randn(2, 8, 6, 6),)
    graphs = [capture.Capture(export(Norms(inplace).eval(), x)).graph() for inplace in (False, True)]
    for g in graphs:
        for op in g["ops"]:
            op["attrs"].pop("cudnn_enabled", None)  # what this machine has
    plain, in_place = ([(op["op"], op["inputs"][1:], op["attrs"]) for op in g["ops"]] for g in graphs)
    assert plain == in_place and [op for op, _, _ in plain].count("batch_norm") == 3


def test_what_torch_fx_records_has_the_same_names():
    from engine.trace import fx

    graph = capture.Capture(fx.record(Norms(False).eval(), (torch.randn(2, 8, 6, 6),))).graph()
    ops = [op["op"] for op in graph["ops"]]
    assert not [op for op in ops if op.startswith("_") or "native" in op]
    assert {"batch_norm", "group_norm", "layer_norm"} <= set(ops)


def test_softmax_of_half_precision_into_float_keeps_its_own_name():
    op = {"name": "s", "op": "_softmax", "inputs": ["x"], "outputs": ["y"],
          "attrs": {"dim": -1, "half_to_float": True}}  # fmt: skip
    assert list(composites([op], ["y"])) == [op]
    (plain,) = composites([{**op, "attrs": {"dim": 1, "half_to_float": False}}], ["y"])
    assert plain["op"] == "softmax" and plain["attrs"] == {"dim": 1, "dtype": None}
