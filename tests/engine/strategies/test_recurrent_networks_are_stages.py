"""nn.LSTM, nn.GRU and nn.RNN are a product and a stage a layer, and mean what PyTorch computes."""

import json

import pytest

pytest.importorskip("torch")

import torch
from torch import nn

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Gemm, Recurrent, Transform
from dsl.lower.plan.buffers import aliases
from dsl.printer import to_text
from engine.devices import Problem
from engine.evaluate.correctness import oracle
from engine.strategies.planner.lowering.rules.recurrent import refusals
from engine.strategies.planner.regions.partition import partition
from engine.strategies.problem import Prepared
from engine.trace.capture import Capture
from engine.trace.exported import export
from sol.graph import OpGraph
from sol.hardware import load

H200 = load("h200")
T, B, W, H = 6, 3, 16, 24


class Net(nn.Module):
    """A network, and a function of its results."""

    def __init__(self, net, function=lambda y, last: y):
        super().__init__()
        self.net, self.function = net, function

    def forward(self, x, *states):
        states = states if len(states) > 1 else states[0] if states else None
        return self.function(*self.net(x, states))


def graph_of(module, *inputs) -> OpGraph:
    return OpGraph.from_json(json.dumps(Capture(export(module.eval(), inputs)).graph()))


def states(net, count):
    d = 2 if net.bidirectional else 1
    return [torch.randn(net.num_layers * d, B, net.hidden_size) for _ in range(count)]


def everything(y, last):
    return (y, *last) if isinstance(last, tuple) else (y, last)


CASES = {
    "an LSTM": (lambda: nn.LSTM(W, H), 0, lambda y, last: y),
    "all of its results": (lambda: nn.LSTM(W, H, batch_first=True), 2, everything),
    "three layers of LSTM": (lambda: nn.LSTM(W, H, 3, batch_first=True), 2, everything),
    "the hidden state alone": (lambda: nn.LSTM(W, H, 2), 2, lambda y, last: last[0]),
    "the cell state alone": (lambda: nn.LSTM(W, H, 2), 2, lambda y, last: last[1]),
    "the cell state of one layer": (lambda: nn.LSTM(W, H), 0, lambda y, last: last[1]),
    "a bidirectional LSTM": (lambda: nn.LSTM(W, H, 2, bidirectional=True, batch_first=True), 2, everything),
    "a GRU": (lambda: nn.GRU(W, H, 2), 1, lambda y, last: y),
    "a bidirectional GRU": (lambda: nn.GRU(W, H, 2, bidirectional=True), 1, everything),
    "a GRU without biases": (lambda: nn.GRU(W, H, bias=False), 0, everything),
    "an RNN": (lambda: nn.RNN(W, H, 2, batch_first=True), 0, everything),
    "a RNN of relu": (lambda: nn.RNN(W, H, nonlinearity="relu", bidirectional=True), 1, everything),
    "a network whose result is changed": (lambda: nn.GRU(W, H), 1, lambda y, last: torch.relu(y * 2)),
}


@pytest.mark.parametrize("name", CASES)
def test_it_is_one_program_that_means_the_same(name):
    torch.manual_seed(0)
    make, count, function = CASES[name]
    module = Net(make(), function)
    net = module.net
    x = torch.randn((B, T, W) if net.batch_first else (T, B, W))
    inputs = [x, *states(net, count)]
    graph = graph_of(module, *inputs)
    parts = partition(graph)
    (region,) = parts.regions
    assert parts.whole and not parts.uncovered
    for cls in ("tf32", "f16", "bf16"):
        program = check(to_text(region.lowered.program(cls))).program
        assert program is not None
        directions = 2 if net.bidirectional else 1
        assert sum(isinstance(s, Recurrent) for s in program.stages) == net.num_layers
        assert sum(isinstance(s, Gemm) for s in program.stages) == net.num_layers * directions
    program = check(to_text(region.lowered.program("tf32"))).program
    copies = [s for s in program.stages if isinstance(s, Transform) and s.name not in aliases(program)]
    assert not copies and set(generate(program).sources) == {"cpp"}
    tensors = dict(zip(graph.inputs, inputs, strict=True)) | {
        t.name: module.get_parameter(t.path) for t in graph.tensors.values() if t.kind == "parameter"
    }
    bound = [tensors[b.tensor].detach().reshape(b.shape) for b in region.lowered.inputs]
    wanted = torch.utils._pytree.tree_leaves(module.double()(*(t.double() for t in inputs)))
    for got, want in zip(oracle.run(program, bound, exact=True), wanted, strict=True):
        torch.testing.assert_close(got.reshape(want.shape), want, rtol=1e-9, atol=1e-9)
    for got, want in zip(oracle.run(program, bound), wanted, strict=True):
        torch.testing.assert_close(got.double().reshape(want.shape), want, rtol=4e-3, atol=4e-3)


STAYS = {
    "with a projection is not covered yet": lambda: (nn.LSTM(W, H, proj_size=8), torch.randn(T, B, W)),
    "has 2,048 hidden units, and no cluster of 16 blocks holds their weights": lambda: (
        nn.LSTM(W, 2048), torch.randn(T, B, W),
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", STAYS)
def test_what_no_stage_computes_stays_pytorch_with_the_reason(why):
    net, x = STAYS[why]()
    graph = graph_of(Net(net, lambda y, last: torch.relu(y) + 1), x)
    parts = partition(graph)
    assert why in next(iter(refusals(graph).values()))
    assert any(why in u.reason for u in parts.uncovered)


def test_a_network_too_large_in_tf32_stays_there_and_has_a_program_in_f16():
    graph = graph_of(Net(nn.LSTM(W, 640), lambda y, last: torch.relu(y)), torch.randn(T, B, W))
    for cls, covered in (("tf32", False), ("f16", True)):
        prepared = Prepared(Problem("", "module", graph), (cls,), H200)
        assert any("recurrent" in to_text(s.base) for p in prepared.parts for s in p.structures) is covered
        assert any(u.op == "lstm" for u in prepared.uncovered) is not covered


class OfKernelBench(nn.Module):
    """KernelBench's level 3, problems 36 to 42: six layers, 512 steps, a batch of 10, 256 hidden units."""

    def __init__(self, kind, bidirectional, which):
        super().__init__()
        self.net = kind(128, 256, 6, batch_first=kind is nn.LSTM, bidirectional=bidirectional)
        self.which = which

    def forward(self, x, *first):
        y, last = self.net(x, first if len(first) > 1 else first[0])
        return {"y": y, "h": last[0] if len(first) > 1 else last, "c": last[-1]}[self.which]


OF_THEM = [
    (nn.LSTM, False, "h"), (nn.LSTM, False, "c"), (nn.LSTM, True, "y"),
    *((nn.GRU, both, which) for both in (False, True) for which in "yh"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "bidirectional", "which"), OF_THEM)
def test_kernelbenchs_models_are_whole_and_expected_to_be_faster(kind, bidirectional, which):
    lstm, d = kind is nn.LSTM, 12 if bidirectional else 6
    x = torch.randn((10, 512, 128) if lstm else (512, 10, 128))
    first = [torch.randn(d, 10, 256) for _ in range(2 if lstm else 1)]
    prepared = Prepared(
        Problem("", "module", graph_of(OfKernelBench(kind, bidirectional, which), x, *first)), ("tf32",), H200
    )
    (part,) = prepared.parts
    assert not prepared.uncovered and part.structures[0].backend == "cpp"
    assert 2 < part.structures[0].ms < 12  # milliseconds; PyTorch took 28 to 138


def test_in_tf32_a_second_structure_computes_the_steps_in_f32():
    graph = graph_of(Net(nn.GRU(W, H, 2)), torch.randn(T, B, W))
    prepared = Prepared(Problem("", "module", graph), ("tf32",), H200)
    words = {s.words: s.base for s in prepared.parts[0].structures}
    exact = next(base for text, base in words.items() if "recurrent steps in f32" in text)
    assert {s.compute.value for s in exact.stages if isinstance(s, Recurrent)} == {"f32"} and len(words) == 2
