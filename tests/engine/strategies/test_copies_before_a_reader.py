"""An operand in another order or shape is copied in a stage before its reader, with any number of axes that still needs
five at most, and the program computes what the module does."""

import pytest

pytest.importorskip("torch")

import torch

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text
from engine.devices import SessionRefused
from engine.evaluate.correctness import oracle
from engine.strategies.planner.lowering.drafts import Leaf
from engine.strategies.planner.lowering.lower import lower
from tests.engine.strategies.functions import traced


def windows(x, w):
    """Windows of 2 x 2 of an image with channels last, each row times a matrix, and back."""
    b, h, v, c = x.shape
    rows = x.view(b, h // 2, 2, v // 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 4, c)
    out = (rows @ w).view(b, h // 2, v // 2, 2, 2, c).permute(0, 1, 3, 2, 4, 5).reshape(b, h, v, c)
    return out + x


IMAGE, MATRIX, SQUARE = (2, 4, 6, 16), (16, 16), (24, 24)
BODIES = {
    "a residual in another order": (lambda x, w: (x @ w) + x.T, (SQUARE, SQUARE)),
    "an earlier result in another order": (lambda x, w: (h := torch.relu(x @ w), (h @ w) + h.T)[-1], (SQUARE, SQUARE)),
    "an earlier result in another shape": (
        lambda x, w: (h := torch.relu(x @ w), (h.view(4, 6, 24) @ w) * h.view(4, 6, 24))[-1], (SQUARE, SQUARE),
    ),
    "of six axes": (windows, (IMAGE, MATRIX)),
    "moved twice": (lambda x, w: windows(windows(x, w), w), (IMAGE, MATRIX)),
    "a norm after a permutation": (
        lambda x, w: torch.softmax((x.permute(0, 3, 1, 2).reshape(2, 16, 24) @ w).transpose(1, 2) * 2, -1),
        (IMAGE, (24, 8)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BODIES)
def test_the_program_computes_what_the_module_does(name):
    function, shapes = BODIES[name]
    torch.manual_seed(0)
    inputs = [torch.randn(shape) for shape in shapes]
    graph = traced(function, *inputs)
    lowered = lower(graph)
    result = check(to_text(lowered.program("tf32")))
    assert result.ok and generate(result.program, 132).sources, result.diagnostics
    named = dict(zip(graph.inputs, (x.double() for x in inputs), strict=True))
    (out,) = oracle.run(result.program, [named[b.tensor].reshape(b.shape) for b in lowered.inputs], exact=True)
    expected = function(*(x.double() for x in inputs))
    torch.testing.assert_close(out.reshape(expected.shape), expected)


def test_a_stage_does_not_wait_for_its_own_result():
    graph = traced(lambda x, w: (h := x @ w, h + h.T)[-1], torch.randn(SQUARE), torch.randn(SQUARE))
    with pytest.raises(SessionRefused, match="before the one that computes it"):
        lower(graph)


@pytest.mark.parametrize(
    ("base", "order", "merged"),
    [
        ((2, 4, 2, 6, 2, 16), (0, 1, 3, 2, 4, 5), ((8, 2, 6, 32), (0, 2, 1, 3))),
        ((2, 3, 4, 5, 6, 7), (5, 4, 3, 2, 1, 0), ((2, 3, 4, 5, 6, 7), (5, 4, 3, 2, 1, 0))),
        ((2, 1, 3, 1, 4, 5), (4, 5, 0, 1, 2, 3), ((6, 20), (1, 0))),
    ],
)
def test_axes_that_stay_together_count_once(base, order, merged):
    leaf = Leaf("x", base, order).merged()
    assert (leaf.base, leaf.order) == merged
    x = torch.arange(torch.tensor(base).prod()).view(base)
    assert torch.equal(x.permute(order).flatten(), x.view(leaf.base).permute(leaf.order).flatten())
