"""Inequalities of a model are read, never run: only arithmetic on known names has a value."""

import random

import pytest

from engine.strategies.two_stage.expressions import MOST_TEXT, ExpressionError, read

KNOWN = {"tile_m": 128, "stages": 4, "schedule": "pingpong", "shared_block": 232448}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("stages * (tile_m + 64) * 64 * 2 <= shared_block", True), ("tile_m % 48 == 0", False),
        ("64 < tile_m < 256", True), ('schedule == "pingpong" and tile_m <= 192', True),
        ("schedule == 'cooperative' || stages == 4", True), ("stages > 1 && tile_m == 64", False),
        ("not stages == 4", False), ("ceil_div(tile_m, 48)", 3), ("max(stages, 7) - min(1, 2)", 6),
        ("-tile_m // 100", -2), ("tile_m / 64 == 2", True), ("abs(-3)", 3), ("(stages == 4) * 5", 5),
    ],
)  # fmt: skip
def test_an_expression_has_its_value(text, value):
    assert read(text).value(KNOWN) == value


@pytest.mark.parametrize(
    "text",
    [
        "", "(", "x = 1", "lambda: 1", "__import__('os').system('id')", "tile_m.__class__", "[x for x in y]", "f(1)",
        "tile_m ** 9", "open('f')", "tile_m if stages else 0", "min()", "ceil_div(1)", "min(*[1])", "1; 2", "a\0b",
        "1e999 > 0", "9" * 40, "'" + "x" * 20, "tile_m << 2", "{1: 2}", "stages is 4", "f'{tile_m}'", "(" * 200, "1j",
        "max(1, key=abs)", "+".join("1" * 140), "x" * (MOST_TEXT + 1), "tile_m := 3", "b'x' == 1", "...",
    ],
)  # fmt: skip
def test_anything_else_is_refused_with_a_reason(text):
    with pytest.raises(ExpressionError) as caught:
        read(text)
    assert str(caught.value)


@pytest.mark.parametrize("text", ["tile_m % 0", "1 / (stages - 4) > 0", "schedule + 1 > 0", "schedule < 3", "other > 1",
                                  "tile_m * 1000000000 * 1000000000 > 0", "-schedule == 1"])  # fmt: skip
def test_without_a_value_it_does_not_hold(text):
    expression = read(text)
    assert not expression.holds(KNOWN)
    with pytest.raises(ExpressionError):
        expression.value(KNOWN)


def test_no_text_breaks_it():
    rng = random.Random(1)
    pieces = ["tile_m", "stages", "(", ")", "*", "<=", "and", "not", "1", ",", "min", "/", "0", '"']
    for _ in range(2000):
        text = " ".join(rng.choice(pieces) for _ in range(rng.randrange(12)))
        try:
            read(text).holds(KNOWN)
        except ExpressionError as e:
            assert str(e)
