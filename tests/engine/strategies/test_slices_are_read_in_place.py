"""Elementwise work reads slices where they lie: the module becomes one program that copies none of them."""

import json

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch.nn import functional as F

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import Map, Transform
from dsl.printer import to_text
from engine.evaluate.correctness import oracle
from engine.strategies.planner.regions.partition import partition
from engine.trace.capture import Capture
from engine.trace.exported import export
from sol.attainable import predict
from sol.graph import OpGraph
from sol.hardware import load
from tests.dsl.lower.cute import emulator


def gated(x):
    gate, up = x.chunk(2, dim=-1)
    return F.silu(gate) * up


def by_index(x):
    half = x.shape[-1] // 2
    return F.silu(x[..., :half]) * x[..., half:]


def unequal(x):
    rest, values, gate = x.split([8, 20, 20], dim=-1)
    return values * torch.sigmoid(gate), torch.tanh(rest)


def of_a_slice(x):
    middle = x[:, 1:-1]
    return (middle[:, 1:] - middle[:, :-1]).abs()


GATES = {  # function of one tensor -> the shape of that tensor
    "chunk": (gated, (32, 48)),
    "index": (by_index, (2, 16, 48)),
    "glu": (lambda x: F.glu(x, dim=1), (3, 12, 5, 8)),
    "unequal": (unequal, (32, 48)),
    "narrow": (lambda x: x.narrow(1, 3, 20) * 2.0 + x.narrow(1, 20, 20), (32, 48)),
    "neighbours": (of_a_slice, (3, 19, 8)),
    "from the end": (lambda x: torch.relu(x[:, -16:]) - x[:, :16], (32, 48)),
    "rows": (lambda x: x[1:] - x[:-1], (33, 8)),
    "beside a whole tensor": (lambda x: torch.tanh(x[:, :24]) * x.sum(1, keepdim=True), (32, 48)),
}


class Model(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


class Mlp(nn.Module):
    """A gated MLP whose gate and values come from one product."""

    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(32, 96), nn.Linear(48, 32)

    def forward(self, x):
        values, gate = self.up(x).chunk(2, dim=-1)
        return self.down(values * F.gelu(gate))


class Channels(nn.Module):
    """A gate of channels between two convolutions."""

    def __init__(self):
        super().__init__()
        self.wide, self.back = nn.Conv2d(8, 16, 1), nn.Conv2d(8, 8, 1)

    def forward(self, x):
        a, b = self.wide(x).chunk(2, dim=1)
        return x + self.back(a * b)


def traced(model, *inputs):
    return OpGraph.from_json(json.dumps(Capture(export(model.eval(), inputs)).graph()))


def program_of(graph, cls="tf32"):
    """The typed program of a module that one region covers whole."""
    cut = partition(graph)
    assert cut.whole and not cut.uncovered, cut.uncovered
    lowered = cut.regions[0].lowered
    result = check(to_text(lowered.program(cls)))
    assert result.ok, result.diagnostics
    return lowered, result.program


def computed(lowered, program, values):
    inputs = [values[b.tensor].reshape(b.shape) for b in lowered.inputs]
    return inputs, oracle.run(program, inputs, exact=True)


@pytest.mark.parametrize("name", GATES)
def test_a_program_reads_slices_of_an_input_and_copies_none(name):
    function, shape = GATES[name]
    x = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    graph = traced(Model(function), x)
    lowered, program = program_of(graph)
    assert not any(isinstance(s, Transform) for s in program.stages)
    inputs, results = computed(lowered, program, {graph.inputs[0]: x})
    expected = function(x.double())
    for have, want in zip(results, expected if isinstance(expected, tuple) else (expected,), strict=True):
        assert torch.allclose(have, want.reshape(have.shape), rtol=1e-9, atol=1e-9)
    # The generated kernels, each thread emulated, read x itself within its bounds.
    sources = generate(program).sources
    assert set(sources) == {"cute", "cpp"}
    outputs = [torch.empty(t.shape) for t in program.result_types]
    emulator.load(sources["cute"].text)(inputs, outputs)
    for have, want in zip(outputs, results, strict=True):
        assert torch.allclose(have.double(), want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model, shape", [(Mlp, (16, 32)), (Channels, (2, 8, 6, 8))], ids=["product", "convolution"])
def test_slices_of_a_stage_s_result_are_read_in_place(model, shape):
    module, x = model(), torch.randn(shape)
    graph = traced(module, x)
    lowered, program = program_of(graph)
    gate = next(s for s in program.stages if isinstance(s, Map))
    assert gate.crop is not None and f"{gate.x.name}[" in to_text(program)
    assert not any(isinstance(s, Transform) and s.x.name == gate.x.name for s in program.stages)
    values = {t.name: module.state_dict()[t.path].double() for t in graph.tensors.values() if t.path}
    _, (have,) = computed(lowered, program, values | {graph.inputs[0]: x.double()})
    assert torch.allclose(have.reshape(shape), module.double()(x.double()), rtol=1e-9, atol=1e-9)


def test_a_gate_is_predicted_to_read_its_input_once():
    """The halves of x and the result each move once, in vectors of 16 bytes."""
    graph = traced(Model(gated), torch.empty(4096, 16384, dtype=torch.float16))
    _, program = program_of(graph, "f16")
    of_two_tensors = """program p(a: f16[4096, 8192], b: f16[4096, 8192]) -> f16[4096, 8192] {
      y = map(a) { epilogue silu(acc) * b[m, n] }
      return y
    }"""
    one, two = (predict(p, load("h200")).stages for p in (program, check(of_two_tensors).program))
    assert one[0].bytes == two[0].bytes == 2 * (4096 * 16384 + 4096 * 8192)
    assert len(one) == 1 and one[0].ms == two[0].ms
    assert "128-bit accesses" in generate(program).sources["cute"].text


def test_a_part_of_an_input_is_predicted_to_move_alone():
    graph = traced(Model(lambda x: torch.relu(x[:, 128:256]) + 1.0), torch.empty(4096, 8192))
    _, program = program_of(graph)
    assert predict(program, load("h200")).stages[0].bytes == 2 * 4 * 4096 * 128


def test_a_reader_that_needs_a_copy_leaves_the_slice_to_pytorch_by_name():
    cut = partition(traced(Model(lambda x: x[:, :16] @ x[:, 16:].T), torch.randn(24, 32)))
    reasons = {u.op: u.reason for u in cut.uncovered}
    assert set(reasons) == {"slice"} and "reads no slice in place" in reasons["slice"]
    assert len(cut.regions) == 1


def test_a_slice_with_a_step_stays_pytorch():
    cut = partition(traced(Model(lambda x: torch.relu(x[:, ::2]) * 2.0), torch.randn(24, 32)))
    assert [u.op for u in cut.uncovered] == ["slice"] and "step" in cut.uncovered[0].reason
