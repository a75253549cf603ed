"""A vector of an element-wise kernel stays within a row of the tensors that a row has one value of, if it is wide."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate

TEXT = """program p(x: {dtype}[8, 32, {rows}], w: f32[32], v: f32[32]) -> f32[8, 32, {rows}] {{
  y = normalize(x, w, v) {{
    op groupnorm
    groups 8
    store f32
  }}
  return y
}}"""


def written(dtype: str, rows: int) -> str:
    checked = check(TEXT.format(dtype=dtype, rows=rows))
    assert checked.ok, checked.diagnostics
    return generate(checked.program, 132).sources["cpp"].text.partition("element by element")[2]


@pytest.mark.parametrize(("dtype", "rows", "width"), [("f16", 64516, 4), ("f16", 65536, 8), ("f32", 64514, 2)])
def test_eight_bytes_of_the_narrowest_tensor_are_wide(dtype, rows, width):
    text = written(dtype, rows)
    assert f"V = {width}," in text and "each_" not in text


@pytest.mark.parametrize(("dtype", "rows"), [("f16", 64515), ("f32", 64515), ("f16", 64514)])
def test_narrower_ones_cross_rows_and_each_element_finds_its_own(dtype, rows):
    text = written(dtype, rows)
    assert f"V = {8 if dtype == 'f16' else 4}," in text and "each_" in text
