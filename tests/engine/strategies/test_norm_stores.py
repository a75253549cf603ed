"""A residual sum and its norm are one stage, which reads the sum's parts once and stores both."""

import pytest

pytest.importorskip("torch")

import torch
from torch.nn import functional as F

from tests.engine.strategies.test_written_norms import program, traced

X, R = (torch.randn(4, 16, 64).half() for _ in range(2))
W = torch.randn(128, 64).half() / 8


def stages(function, *inputs):
    wide = [x.double() for x in inputs]
    pipeline, results = program(traced(function, *inputs), "f16", *wide)
    expected = function(*wide)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for result, value in zip(results, expected, strict=True):
        torch.testing.assert_close(result.reshape(value.shape), value, rtol=4e-3, atol=4e-3)
    return [(type(s).__name__, len(s.also)) for s in pipeline.stages]


def norm(x):
    return F.layer_norm(x, (64,), eps=1e-5)


def test_both_are_results():
    assert stages(lambda x, r: (norm(x + r), x + r), X, R) == [("Normalize", 1)]


def test_the_sum_goes_round_a_product_as_in_a_transformer_block():
    def block(x, r, w):
        h = x + r
        return h + F.linear(F.silu(F.linear(norm(h), w)), w.T)

    assert stages(block, X, R, W) == [("Normalize", 1), ("Gemm", 0), ("Gemm", 0)]


def test_an_epilogue_of_the_norm_reads_the_sum_from_registers():
    assert stages(lambda x, r: norm(h := x + r) * h, X, R) == [("Normalize", 0)]


def test_a_sum_that_is_read_before_its_norm_stays_a_stage():
    kinds = stages(lambda x, r, w: norm(F.linear(F.linear(h := x + r, w), w.T) + h) + h, X, R, W)
    assert kinds[0] == ("Map", 0)


def test_a_sum_in_f32_keeps_its_type():
    x, r = X.float(), R.float()
    pipeline, _ = program(traced(lambda x, r: (norm(x + r), x + r), x, r), "f16", x, r)
    assert sorted(type(s).__name__ for s in pipeline.stages) == ["Map", "Normalize"]
