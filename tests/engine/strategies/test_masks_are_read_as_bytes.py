"""Programs read tensors of booleans, as the bytes 1 and 0: masks of attention, of sums, of what is left out."""

import pytest

pytest.importorskip("torch")

import torch

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.ir import DType
from dsl.printer import to_text
from engine.evaluate.candidate.binding import bound
from engine.evaluate.correctness import oracle
from engine.strategies.planner.regions.partition import partition
from tests.engine.strategies.functions import traced

INF = float("inf")


def attention(q, k, v, mask):
    scores = (q @ k.transpose(-1, -2) * 0.125).masked_fill(mask, -INF)
    return scores.softmax(-1) @ v


# Name -> the function of floats and a mask last, the shapes of these.
CASES = {
    "a product": (lambda x, m: x * m, [(64, 96), (64, 96)]),
    "before a running sum": (lambda x, m: torch.cumsum(x * m, 1), [(64, 96), (64, 96)]),
    "left out of a softmax": (lambda x, m: x.masked_fill(~m, -1e4).softmax(-1), [(32, 64), (32, 64)]),
    "chosen by": (lambda x, y, m: torch.where(m, x, y) + 1, [(32, 64), (32, 64), (32, 64)]),
    "in a mean of what is there": (lambda x, m: (x * m).sum(-1) / m.to(x.dtype).sum(-1).clamp(min=1), [(64, 128)] * 2),
    "as the rows of a product": (lambda x, m: m.to(x.dtype) @ x, [(64, 48), (32, 64)]),
    "of positions": (lambda x, m: torch.relu(x) * (~m).unsqueeze(1), [(8, 4, 33, 16), (8, 33, 16)]),
    "with a comparison": (lambda x, m: x * ((x > 0) & m), [(32, 64), (32, 64)]),
    "a row for all": (lambda x, m: x.masked_fill(m, 0.5), [(32, 64), (64,)]),
    "attention": (attention, [(2, 4, 64, 32), (2, 4, 64, 32), (2, 4, 64, 32), (64, 64)]),
    "a slice of a larger one": (lambda x, m: x.masked_fill(m[:, 8:40], 0.0), [(16, 32), (16, 64)]),
    "transposed": (lambda x, m: x * m.t(), [(32, 64), (64, 32)]),
}


@pytest.mark.parametrize("name", CASES)
def test_the_program_means_the_module(name):
    torch.manual_seed(0)
    function, shapes = CASES[name]
    inputs = [*(torch.randn(s) for s in shapes[:-1]), torch.rand(shapes[-1]) > 0.6]
    graph = traced(function, *inputs)
    (region,) = partition(graph).regions
    assert not partition(graph).uncovered
    program = check(to_text(region.lowered.program("tf32"))).program
    assert DType.I8 in {p.type.dtype for p in program.params} and generate(program).sources
    tensors = dict(zip(graph.inputs, inputs, strict=True))
    seen = [bound({"shape": b.shape}, tensors[b.tensor]) for b in region.lowered.inputs]
    assert torch.int8 in {x.dtype for x in seen}
    (y,) = oracle.run(program, [x.double() if x.is_floating_point() else x for x in seen], exact=True)
    expected = function(*(x.double() if x.is_floating_point() else x for x in inputs))
    torch.testing.assert_close(y.reshape(expected.shape).double(), expected)
