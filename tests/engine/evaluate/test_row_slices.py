"""A huge module is computed some rows at a time: where its graph allows that, with the results that it has whole."""

import mmap
import os

import pytest
import torch

from engine.evaluate.correctness import tolerance
from engine.evaluate.correctness.row_slices import row_inputs, slices
from engine.evaluate.reference import module_process, right_results
from engine.evaluate.reference.module_main import Held
from engine.evaluate.shared_tensors import Slot, layout, tensor_at
from engine.trace.load import Bad
from tests.engine.memory import Peak
from tests.engine.traced import once

HEAD = "import torch, torch.nn as nn, torch.nn.functional as F\n"


def module(forward, shape="16, 24, 32", init="pass", more=""):
    """A module whose forward is `forward` of x (and of y, if there is `more`)."""
    arguments = "x, y" if more else "x"
    return (
        f"{HEAD}class Model(nn.Module):\n    def __init__(self):\n        super().__init__()\n        {init}\n"
        f"    def forward(self, {arguments}):\n        return {forward}\n"
        f"def get_inputs(): return [torch.randn({shape}){more}]\n"
    )


BY_ROWS = {
    "a linear layer and its softmax": module("F.softmax(self.l(x), -1)", init="self.l = nn.Linear(32, 8)"),
    "a convolution, a norm and a pool": module(
        "F.max_pool2d(F.group_norm(self.c(x), 2), 2)", "16, 4, 12, 12", "self.c = nn.Conv2d(4, 8, 3)"
    ),
    "a batch norm of inference": module("F.relu(self.n(x))", "16, 4, 12, 12", "self.n = nn.BatchNorm2d(4).eval()"),
    "products of each row": module("x @ x.transpose(1, 2)"),
    "two inputs": module("x * y + x.mean(-1, keepdim=True)", more=", torch.randn(16, 24, 32)"),
    "rows under other names": module("x.flatten(1).unsqueeze(1).flatten(1)[:, 3:]"),
    "halves": module("torch.cat(x.chunk(2, -1), 1)"),
    "a table beside": module("x + torch.arange(32.)"),
}
MIXED = {
    "a softmax of rows": module("F.softmax(x, 0)"),
    "a sum of rows": module("x.sum(0)"),
    "a mean of all": module("x - x.mean()"),
    "a product of rows": module("x.flatten(1) @ x.flatten(1).T"),
    "rows exchanged": module("x.transpose(0, 1)"),
    "rows joined": module("x.view(8, 2, 24, 32).sum(1).repeat(2, 1, 1)"),
    "a running sum": module("x.cumsum(0)"),
    "a row for each": module("x + self.w", init="self.w = nn.Parameter(torch.randn(16, 24, 32))"),
    "a batch norm that counts": module("F.batch_norm(x, None, None, training=True)"),
    "rolled": module("x.roll(1, 0)"),
}


@pytest.mark.parametrize("source", BY_ROWS.values(), ids=BY_ROWS)
def test_a_graph_of_independent_rows_says_which_inputs_to_cut(source):
    graph = once(source).graph
    assert row_inputs(graph) == frozenset(graph.inputs)


@pytest.mark.parametrize("source", MIXED.values(), ids=MIXED)
def test_a_graph_that_mixes_rows_is_computed_whole(source):
    assert row_inputs(once(source).graph) is None


def test_slices_are_of_almost_one_size():
    assert slices(10, 4) == [slice(0, 3), slice(3, 6), slice(6, 10)] and slices(4, 0) == slices(4, 1)
    assert slices(16, 16) == [slice(0, 16)]


# ---- the module's process ----


def held(source) -> Held:
    """The module in this process, with the memory that its own process would share."""
    graph = once(source).graph
    own = {t.name: (t.shape, t.dtype) for t in graph.tensors.values() if t.kind != "intermediate"}
    message = {"source": source, "graph": graph.to_json(), "device": "cpu", "seed": 1, "memory": 8 << 30}
    for name, (slots, size) in {"own": layout(own), "result": layout(module_process.result_types(graph))}.items():
        fd = os.memfd_create(name)
        os.ftruncate(fd, max(size, mmap.PAGESIZE))
        slots = {n: vars(s) for n, s in slots.items()}
        message |= {f"{name}_fd": fd, f"{name}_size": max(size, mmap.PAGESIZE), f"{name}_slots": slots}
    return Held(message)


@pytest.fixture
def small(monkeypatch):
    """What counts as huge is small here."""
    monkeypatch.setattr(right_results, "SLICED_BYTES", 1 << 12)
    monkeypatch.setattr(right_results, "SLICE_BYTES", 1 << 14)


def answer(process, seed=3, cls="f16"):
    """(precision, results, PyTorch's error) of one round."""
    reply = process.do_compute("normal", seed, None, True)
    slots = [Slot(process.result_slots[n].offset, tuple(o["shape"]), o["dtype"]) for n, o in reply["outputs"].items()]
    results = [tensor_at(process.result_map, slot).clone() for slot in slots]
    return reply["precision"], results, process.do_error("normal", seed, cls, None)


@pytest.mark.parametrize("source", BY_ROWS.values(), ids=BY_ROWS)
def test_slices_have_the_results_of_the_whole(source, small, monkeypatch):
    precision, results, error = answer(held(source))
    monkeypatch.setattr(right_results, "SLICED_BYTES", 1 << 40)
    whole_precision, whole, whole_error = answer(held(source))
    assert precision == whole_precision == "f64"
    for one, other in zip(results, whole, strict=True):
        assert torch.allclose(one, other, rtol=1e-13, atol=1e-13)
    assert error["error"] == pytest.approx(whole_error["error"], rel=0.05, abs=1e-12)


COUNTING = {
    "another result": module("F.softmax(x.view(16, -1), -1).view(-1, 24, 32)"),
    "another shape": module("x.view(16, -1)"),
    "no result": module("x.view(16, 24, 32) * 2"),
}


@pytest.mark.parametrize("source", COUNTING.values(), ids=COUNTING)
def test_a_text_that_counts_its_rows_is_computed_whole_after_one_look(source, small, monkeypatch):
    process = held(source)
    assert row_inputs(process.graph) is not None, "the graph does not show it"
    _, results, error = answer(process)
    assert process.right._parts(None) == []
    monkeypatch.setattr(right_results, "SLICED_BYTES", 1 << 40)
    _, whole, whole_error = answer(held(source))
    assert torch.equal(results[0], whole[0]) and error == whole_error, "bit for bit, as without slices"


def test_float64_without_memory_for_it_is_tried_once(small, monkeypatch):
    process, tried = held(BY_ROWS["a linear layer and its softmax"]), []

    def widened(values):
        tried.append(values)
        raise Bad("gpu_memory", "forward asks for more memory than the GPU has")

    monkeypatch.setattr(process.right, "_in_float64", widened)
    assert [process.do_compute("normal", seed, None, True)["precision"] for seed in (1, 2, 3)] == ["f32"] * 3
    assert len(tried) == 1


def test_an_answer_without_memory_is_not_followed_by_a_wider_one(monkeypatch):
    process, ran = held(module("x * 2")), []

    def run(model, values, wide, copies=True):
        ran.append(wide)
        if wide:
            raise Bad("gpu_memory", "forward asks for more memory than the GPU has")
        return Held.run(process, model, values, wide, copies)

    monkeypatch.setattr(process, "run", run)
    assert process.do_compute("normal", 1, None, True)["precision"] == "f32"
    assert ran == [True, False]


POINTWISE = module("self.c(x)", "16, 16, 64, 64", "self.c = nn.Conv2d(16, 32, 1, bias=False)")
NARROW = 4 << 20


def test_a_huge_module_takes_at_most_two_and_a_half_times_its_own_memory(monkeypatch):
    """conv2d_pointwise of the suite at a thousandth of its size: 4 MB of inputs and 8 MB of results."""
    for name, value in {"SLICED_BYTES": 4 << 20, "SLICE_BYTES": 1 << 20}.items():
        monkeypatch.setattr(right_results, name, value)
    monkeypatch.setattr(tolerance, "CHUNK", 1 << 16)
    peaks, results = [], []
    for narrow in (NARROW, 1 << 40):
        monkeypatch.setattr(module_process, "NARROW_BYTES", narrow)
        process = held(POINTWISE)
        own = sum(t.bytes for t in process.graph.tensors.values())
        with Peak() as peak:
            precision, one, error = answer(process)
        there = sum(v.nbytes for v in process.own.values()) + process.result_map.size()
        peaks.append((peak.bytes - sum(r.nbytes for r in one) + there) / own)  # the test's own copy of the results
        results.append((precision, one[0].dtype, error["error"]))
        monkeypatch.setattr(right_results, "SLICED_BYTES", 1 << 40)
    assert peaks[0] <= 2.5 < 4 < peaks[1], "float64 of all at once takes over four times"
    assert results[0][:2] == ("f64", torch.float32) and results[1][:2] == ("f64", torch.float64)
    assert results[0][2] == pytest.approx(results[1][2], rel=0.01)
