"""What lies between a product and a norm is computed by the norm, so that the product stores its sum in half precision
as autocast does."""

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from dsl.check.program import check
from dsl.printer import to_text
from engine.evaluate.correctness import oracle
from engine.strategies.planner.lowering.choice import Choice
from engine.strategies.planner.lowering.lower import lower
from engine.strategies.planner.lowering.pipeline import program
from tests.engine.strategies.functions import traced

X, W, B = torch.randn(2, 8, 10, 10), torch.randn(16, 8, 3, 3) / 8, torch.randn(16, 1, 1)
NARROW, LATE = Choice(narrow=True), Choice(narrow=True, late=True)


def stages(function, *inputs, choice=LATE):
    """The stages of a function's program in f16, checked, whose results are those of the function."""
    lowered = lower(traced(function, *inputs))
    checked = check(to_text(program(lowered, "f16", choice)))
    assert checked.ok, checked.diagnostics[0].message
    values = [x.double().reshape(b.shape) for x, b in zip(inputs, lowered.inputs, strict=True)]
    (result,) = oracle.run(checked.program, values, exact=True)
    torch.testing.assert_close(result.float(), function(*inputs), rtol=1e-4, atol=1e-4)
    return {s.name: s for s in checked.program.stages}


def sigmoid_then_norm(x, w, b):
    return F.group_norm(torch.sigmoid(F.conv2d(x, w) + b), 4)


def test_the_convolution_stores_its_sum_and_the_norm_does_the_rest():
    by_name = stages(sigmoid_then_norm, X, W, B)
    assert "sigmoid" in str(by_name["y"].of) and "sigmoid" not in str(by_name["h1"].epilogue)
    early = stages(sigmoid_then_norm, X, W, B, choice=NARROW)
    assert "sigmoid" in str(early["h1"].epilogue)


def test_so_does_a_product():
    def function(x, w):
        return F.layer_norm(F.silu(F.linear(x, w)), (32,))

    assert "silu" in str(stages(function, torch.randn(16, 24), torch.randn(32, 24) / 4)["y"].of)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w, b: F.group_norm(F.conv2d(x, w) + b, 4),  # rounds to the same before and after
        lambda x, w, b: F.group_norm(F.conv2d(x, w), 4),
        lambda x, w, b: F.group_norm(y := torch.sigmoid(F.conv2d(x, w) + b), 4) * y,  # read twice
    ],
)
def test_the_rest_stays_as_it_is(function):
    lowered = lower(traced(function, X, W, B))
    assert program(lowered, "f16", LATE) == program(lowered, "f16", NARROW)
