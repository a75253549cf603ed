"""An operand that spans a part of a stage's rows is read by that stage, whose rows are then seen as several axes."""

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from tests.engine.strategies.test_written_norms import program, traced

torch.manual_seed(0)


def drawn(*shape):
    return torch.randn(shape).half()


IMAGE, HEADS, TOKENS = drawn(4, 8, 16, 16), drawn(2, 4, 32, 32), drawn(4, 128, 64)
FEW, WIDE = drawn(4, 24, 64), drawn(64, 32) / 8
CHANNEL, HEAD, TOKEN = drawn(8, 1, 1), drawn(4, 1, 1), drawn(128, 1)

CASES = {
    "instance norm, channels": (lambda x, s: F.instance_norm(x) * s, [IMAGE, CHANNEL], ["Normalize"]),
    "softmax over space, channels": (
        lambda x, s: torch.softmax(x.flatten(2), -1).view(x.shape) * s, [IMAGE, CHANNEL], ["Normalize"],
    ),
    "a mean over space, channels": (lambda x, s: x.mean((2, 3)) + s[:, 0, 0], [IMAGE, CHANNEL], ["Reduce"]),
    "the largest of a column": (lambda x, s: x.logsumexp(1) + s, [IMAGE, drawn(16, 1)], None),
    "softmax of scores, heads": (lambda x, s: torch.softmax(x, -1) * s, [HEADS, HEAD], ["Normalize"]),
    "a sum, heads": (lambda x, s: x.sum(-1) * s, [HEADS, HEAD[..., 0]], ["Reduce"]),
    "layer norm, tokens": (lambda x, s: F.layer_norm(x, (64,)) * s + x, [TOKENS, TOKEN], ["Normalize"]),
    "what a norm reads already, tokens": (
        lambda x, p, s: F.layer_norm(x * p, (64,)) * s, [TOKENS, drawn(128, 64), TOKEN], ["Normalize"],
    ),
    "a product, positions": (lambda x, w, s: x @ w + s, [TOKENS, WIDE, drawn(128, 32)], ["Gemm"]),
    "a product, tokens": (lambda x, w, s: F.gelu(x @ w) * s, [TOKENS, WIDE, TOKEN], ["Gemm"]),
    "a product of few rows, positions": (
        lambda x, w, s: x @ w + s, [FEW, WIDE, drawn(24, 32)], ["Gemm", "Transform", "Map"],
    ),
    "a product, batches": (
        lambda x, w, s: x @ w + s, [TOKENS, WIDE, drawn(4, 1, 1)], ["Gemm", "Transform", "Map"],
    ),
    "a batch of products, heads": (
        lambda x, s: x @ x.mT * s, [HEADS, HEAD], None,
    ),
    "a product and its norm, tokens": (
        lambda x, w, s: F.layer_norm(x @ w, (32,)) * s, [TOKENS, WIDE, TOKEN], ["Gemm", "Transform", "Normalize"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_the_program_means_what_the_module_says(name):
    function, inputs, kinds = CASES[name]
    wide = [x.double() for x in inputs]
    pipeline, (result,) = program(traced(function, *inputs), "f16", *wide)
    expected = function(*wide)
    torch.testing.assert_close(result.reshape(expected.shape), expected, rtol=4e-3, atol=4e-3)
    assert kinds is None or [type(s).__name__ for s in pipeline.stages] == kinds


def test_a_norm_of_channels_keeps_its_axes_and_goes_on_in_a_map():
    x, s = IMAGE, drawn(16, 1)
    pipeline, (result,) = program(traced(lambda x, s: F.group_norm(x, 2) * s, x, s), "f16", x.double(), s.double())
    torch.testing.assert_close(result.reshape(x.shape), F.group_norm(x.double(), 2) * s, rtol=4e-3, atol=4e-3)
    assert type(pipeline.stages[0]).__name__ == "Normalize"


def test_a_result_that_others_read_stays_as_it_was_stored():
    def function(x, s):
        y = torch.softmax(x, -1)
        return y @ y.mT, y * s

    x, s = HEADS, HEAD
    _, results = program(traced(function, x, s), "f16", x.double(), s.double())
    for result, value in zip(results, function(x.double(), s.double()), strict=True):
        torch.testing.assert_close(result.reshape(value.shape), value, rtol=4e-3, atol=4e-3)
