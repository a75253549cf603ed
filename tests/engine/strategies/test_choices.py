"""Comparisons, masks and constants of a module are parts of a stage's expression, and never tensors of their own."""

import pytest

from engine.devices import SessionRefused
from engine.strategies.planner.lowering.lower import lower
from tests.engine.graphs import Builder
from tests.engine.strategies.test_lowering import body, epilogue

SHAPE = (256, 192)


def product():
    """A linear layer without bias, `acc` of what follows."""
    g = Builder()
    return g, g.op("linear", [g.input("x", (256, 128)), g.parameter("w", (192, 128))], SHAPE)


def test_a_choice_by_a_comparison():
    g, h = product()
    above = g.op("gt", [h], SHAPE, "bool", other=0.5)
    y = g.op("where", [above, h], SHAPE, other=-1.0)
    assert epilogue(g.graph(y)) == "where(acc > 0.5, acc, -1.0)"


def test_a_mask_and_its_opposite_are_numbers():
    g, h = product()
    low, high = (g.op(name, [h], SHAPE, "bool", other=n) for name, n in (("gt", -1.0), ("lt", 1.0)))
    both = g.op("bitwise_and", [low, high], SHAPE, "bool")
    other = g.op("bitwise_not", [both], SHAPE, "bool")
    y = g.op("mul", [h, g.op("to", [other], SHAPE, dtype="f32")], SHAPE)
    assert epilogue(g.graph(y)) == "acc * ((acc > -1.0) * (acc < 1.0) == 0.0)"


def test_pytorchs_sum_of_two_masks_is_or():
    g, h = product()
    masks = [g.op(name, [h], SHAPE, "bool", other=n) for name, n in (("lt", -1.0), ("gt", 1.0))]
    y = g.op("mul", [h, g.op("add", masks, SHAPE, "bool", alpha=1)], SHAPE)
    assert epilogue(g.graph(y)) == "acc * max(acc < -1.0, acc > 1.0)"


def test_a_softmax_of_scores_that_are_filled_with_minus_infinity():
    g, h = product()
    mask = g.op("lt", [h], SHAPE, "bool", other=0.0)
    scores = g.op("masked_fill", [h, mask], SHAPE, value="-inf")
    assert "epilogue where(acc < 0.0, -inf, acc)" in body(g.graph(g.op("softmax", [scores], SHAPE, dim=-1)))


def test_a_cast_to_booleans_asks_for_what_is_not_zero():
    g, h = product()
    mask = g.op("to", [h], SHAPE, "bool")
    assert epilogue(g.graph(g.op("to", [mask], SHAPE, "f32"))) == "acc != 0.0"


def test_constants_are_numbers():
    g, h = product()
    zeros = g.op("zeros_like", [h], SHAPE)
    filled = g.op("full", [], SHAPE, fill_value=0.25)
    y = g.op("add", [g.op("maximum", [h, zeros], SHAPE), filled], SHAPE, alpha=1)
    assert epilogue(g.graph(y)) == "max(acc, 0.0) + 0.25"


def test_a_slope_for_each_channel():
    g = Builder()
    x = g.op("conv2d", [g.input("x", (8, 16, 32, 32)), g.parameter("w", (64, 16, 3, 3))], (8, 64, 30, 30))
    y = g.op("prelu", [x, g.parameter("slope", (64,))], (8, 64, 30, 30))
    assert "relu(acc) + slope[c] * clamp(acc, -3.4028234663852886e+38, 0.0)" in body(g.graph(y))


def test_a_divergence_is_zero_where_its_target_is():
    g, h = product()
    y = g.op("kl_div", [h, g.input("t", SHAPE)], SHAPE, reduction=0)
    assert epilogue(g.graph(y)) == (
        "where(t[m, n] != t[m, n], t[m, n], where(t[m, n] == 0.0, 0.0, t[m, n] * log(t[m, n]))) - t[m, n] * acc"
    )


def test_a_deviation_has_its_mean_and_then_its_squares():
    g = Builder()
    y = g.op("std", [g.input("x", SHAPE)], (256,), dim=[-1], correction=1, keepdim=False)
    text = body(g.graph(y))
    assert "op mean" in text and "of (acc - h1[m]) * (acc - h1[m])" in text
    assert f"epilogue sqrt(acc * {1 / 191!r})" in text


@pytest.mark.parametrize(
    ("op", "dtype", "why"),
    [
        ("gt", "bool", "`aten.gt` (line 2) makes bool that is stored"),
        ("to", "i32", "`aten.to` (line 2) computes in i32"),
    ],
)
def test_booleans_and_whole_numbers_are_not_stored(op, dtype, why):
    g, h = product()
    y = g.op(op, [h], SHAPE, dtype, other=0.0)
    with pytest.raises(SessionRefused) as caught:
        lower(g.graph(y))
    assert why in str(caught.value) and caught.value.op == y


def test_a_mask_that_pytorch_made_is_read_behind_the_product():
    g, h = product()
    y = g.op("where", [g.input("mask", SHAPE, "bool"), h], SHAPE, other=0.0)
    text = body(g.graph(y))
    assert "mask: i8[" in text and "where(mask[m, n], acc, 0.0)" in text
    assert text.index("gemm(") < text.index("map(") < text.index("where(")
