"""A causal mask before relu, exp or sigmoid is `tril` after it, by its values; other masks stay."""

import pytest

pytest.importorskip("torch")

import torch

from dsl.check.program import check
from dsl.printer import to_text
from engine.evaluate.correctness import oracle
from engine.strategies.planner.lowering.rules.masks import without_masks
from engine.strategies.planner.regions.partition import partition
from tests.engine.strategies.functions import traced

T = 16


def filled(q, k):
    return (q @ k.mT).masked_fill(torch.ones(T, T, dtype=torch.bool).triu(1), float("-inf"))


MASKED = {
    "relu": lambda q, k: filled(q, k).relu(),
    "sigmoid": lambda q, k: torch.sigmoid(filled(q, k)),
    "exp of what is chosen": lambda q, k: torch.exp(
        torch.where(torch.ones(T, T, dtype=torch.bool).tril(), (q @ k.mT) * 0.1, float("-inf"))
    ),
}


@pytest.mark.parametrize("name", MASKED)
def test_no_mask_is_read(name):
    torch.manual_seed(0)
    function, inputs = MASKED[name], (torch.randn(2, T, 8), torch.randn(2, T, 8))
    graph = traced(function, *inputs)
    (region,) = partition(graph).regions
    text = to_text(region.lowered.program("tf32"))
    assert "tril(" in text and len(check(text).program.stages) == 1
    tensors = dict(zip(graph.inputs, inputs, strict=True))
    bound = [tensors[b.tensor].double().reshape(b.shape) for b in region.lowered.inputs]
    (y,) = oracle.run(check(text).program, bound, exact=True)
    torch.testing.assert_close(y.reshape(2, T, T), function(*(x.double() for x in inputs)))


OTHERS = {
    "a band": lambda q, k: (q @ k.mT).masked_fill(torch.ones(T, T).tril(3) == 0, float("-inf")).relu(),
    "a function that does not vanish": lambda q, k: filled(q, k).tanh(),
    "scores with another reader": lambda q, k: ((s := filled(q, k)).relu(), s),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_masks_stay(name):
    graph = traced(OTHERS[name], torch.randn(2, T, 8), torch.randn(2, T, 8))
    assert without_masks(graph) is graph
