"""A module that writes its state is judged and timed from the same state at each call."""

import pytest
import torch

from engine.devices import Problem
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.reference.module_state import WrittenState
from engine.evaluate.shared_tensors import read
from sol.graph import OpGraph, Tensor
from tests.engine.traced import once

pytestmark = pytest.mark.usefixtures("full_sandbox")

COUNTS = """
import torch, torch.nn as nn
class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.long))
        self.register_buffer("mean", torch.full((64,), 0.5))
        self.scale = nn.Parameter(torch.ones(64))
        self.hidden = torch.zeros(96, 64)
        self.mask = None
    def forward(self, x):
        if self.mask is None:
            self.mask = torch.linspace(0, 1, 64)
        self.count += 1
        self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        self.scale.mul_(0.5)
        self.hidden = torch.tanh(x + self.hidden)
        x.mul_(3)
        return (x - self.mean) * self.scale * self.mask + self.hidden * torch.tensor([2.0] * 64)
def get_inputs(): return [torch.randn(96, 64)]
"""


@pytest.fixture(scope="module")
def reference():
    with Reference(Problem(COUNTS, "module", once(COUNTS).graph), host_clock=True) as r:
        yield r


def by_hand(t):
    t = {n: v.double() if v.is_floating_point() else v for n, v in t.items()}
    mean, scale = t["mean"] * 0.9 + t["x"].mean(0) * 0.1, t["scale"] * 0.5
    hidden, x = torch.tanh(t["x"] + t["hidden"]), t["x"] * 3
    out = (x - mean) * scale * t["mask"] + hidden * 2
    return out, {"count": t["count"] + 1, "mean": mean, "scale": scale, "hidden": hidden, "x": x}


def results(reference, family="own", seed=0):
    graph = reference.problem.graph
    out = read(reference.compute(family, seed).region)
    return out[graph.returned[0]], {old: out[new] for old, new in graph.written.items()}


def test_the_module_writes_five_tensors(reference):
    graph = reference.problem.graph
    assert set(graph.writes) == {"count", "mean", "scale", "hidden", "x"} and graph.settled
    assert {graph.tensors[n].kind for n in graph.writes} == {"buffer", "parameter", "input"}


def test_every_call_starts_from_the_same_state(reference):
    own = read(reference.inputs_own())
    wanted, state = by_hand(own)
    for _ in range(2):
        for family in ("own", "normal"):  # the second one makes the first one run again
            reference.compute(family, 3)
        out, after = results(reference)
        assert torch.allclose(out, wanted, rtol=1e-6, atol=1e-6)
        for name, value in state.items():
            assert torch.allclose(after[name].double(), value.double(), rtol=1e-6, atol=1e-6), name
    assert torch.equal(read(reference.inputs_own())["mean"], own["mean"]) and own["count"] == 1  # the first call's


def test_pytorchs_error_in_a_class_is_that_of_one_call(reference):
    assert reference.pytorch_error("own", 0, "f32").error < 1e-6
    assert reference.pytorch_error("own", 0, "f32").error == reference.pytorch_error("own", 0, "f32").error


def test_literals_and_what_the_first_call_makes_are_shared(reference):
    own = read(reference.inputs_own())
    constants = [t for t in reference.problem.graph.tensors.values() if t.kind == "constant"]
    assert len(constants) == 2 and all(t.name in own for t in constants)
    assert torch.equal(own["mask"], torch.linspace(0, 1, 64))


def test_timed_calls_start_from_the_same_state(reference):
    reference.baseline_open("eager")
    for _ in range(3):
        assert reference.baseline_sample().ms > 0
    out, _ = results(reference)
    assert torch.allclose(out, by_hand(read(reference.inputs_own()))[0], rtol=1e-6, atol=1e-6)


def test_a_state_is_put_back_in_the_same_memory_before_each_timed_call():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.zeros(2))

    t = Tensor("n", (2,), "f32", "buffer", "n")
    x = Tensor("x", (2,), "f32", "input")
    news = [Tensor(name, (2,), "f32", "intermediate") for name in ("y", "a", "b")]
    graph = OpGraph({t.name: t for t in (t, x, *news)}, (), ("x",), ("y", "a", "b"), ("n", "x"))
    model, start, sets = Model(), torch.tensor([3.0, 4.0]), [[torch.ones(2)], [2, torch.zeros(2)]]
    restore = WrittenState(graph).restorer(model, {"n": start}, sets)
    places = set()
    for at in (0, 1, 0):
        restore(at)
        assert torch.equal(model.n, start) and torch.equal(sets[at][-1], torch.full((2,), 1.0 - at))
        places.add(model.n.data_ptr())
        model.n.add_(1)
        sets[at][-1].mul_(5).add_(1)
    assert len(places) == 1
