"""Two chains of elementwise work that meet are one stage: what only one reader needs is not stored between them."""

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from engine.evaluate.correctness import oracle
from engine.strategies.planner.regions.partition import partition
from tests.engine.strategies.functions import traced

X, Y, W = torch.randn(32, 48), torch.randn(32, 48), torch.randn(48, 48)
IMAGE = torch.randn(2, 8, 6, 8)


ONE_STAGE = {
    "two inputs": (lambda x, y: F.silu(x) + torch.tanh(y) * 0.5, (X, Y)),
    "one input twice": (lambda x, y: F.silu(x) * torch.tanh(x) - y, (X, Y)),
    "rows of numbers": (lambda x, y, r, s: x * r + y * s, (X, Y, torch.randn(32, 1), torch.randn(32, 1))),
    "a product first": (lambda x, w, y: torch.relu(x @ w) * torch.sigmoid(y), (X, W, Y)),
    "a product last": (lambda y, x, w: torch.sigmoid(y) * torch.relu(x @ w), (Y, X, W)),
    "a norm": (lambda x, y: F.softmax(x, -1) * F.silu(y), (X, Y)),
    "images": (lambda x, y: torch.relu(x) * torch.sigmoid(y), (IMAGE, IMAGE + 1)),
    "halves of two inputs": (lambda x, y: F.silu(x[:, :24]) * torch.tanh(y[:, 24:]), (X, Y)),
}
MORE = {
    "another reader": (lambda x, w: (F.silu(x), F.silu(x) @ w), (X, W)),
    "a value with two readers": (lambda x, y: _twice(torch.tanh(x), torch.exp(y)), (X, Y)),
    "the slice of an epilogue": (lambda x, w, y: (x @ w) * torch.tanh(y[:, :48]), (X, W, torch.randn(32, 96))),
}


def _twice(a, b):
    return a * b, a + b


def computed(name, function, inputs):
    graph = traced(function, *inputs)
    cut = partition(graph)
    assert cut.whole, cut.uncovered
    lowered = cut.regions[0].lowered
    result = check(to_text(lowered.program("tf32")))
    assert result.ok and generate(result.program).sources, result.diagnostics
    values = dict(zip(graph.inputs, inputs, strict=True))
    have = oracle.run(result.program, [values[b.tensor].double().reshape(b.shape) for b in lowered.inputs], exact=True)
    want = function(*(x.double() for x in inputs))
    for h, w in zip(have, want if isinstance(want, tuple) else (want,), strict=True):
        assert torch.allclose(h.reshape(w.shape), w, rtol=1e-9, atol=1e-9)
    return result.program


@pytest.mark.parametrize("name", ONE_STAGE)
def test_they_are_one_stage(name):
    assert len(computed(name, *ONE_STAGE[name]).stages) == 1


@pytest.mark.parametrize("name", MORE)
def test_what_others_read_is_stored_and_the_results_are_the_module_s(name):
    assert len(computed(name, *MORE[name]).stages) >= 2
