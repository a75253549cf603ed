"""A running sum of many rows is predicted by its bytes; one of few rows or columns by the threads that it has."""

import pytest

from dsl.check.program import check
from dsl.resolve import resolve
from sol import hardware
from sol.attainable import predict


def ms(shape: tuple[int, int], over: str) -> float:
    t = f"f32[{shape[0]}, {shape[1]}]"
    text = f"program p(x: {t}) -> {t} {{\n  y = scan(x) {{ op sum  over {over} }}\n  return y\n}}"
    return predict(resolve(check(text).program, 132), hardware.load("h200")).ms


@pytest.mark.parametrize("shape, over", [((32768, 4096), "n"), ((1024, 1 << 18), "m")])
def test_it_streams_where_rows_or_columns_fill_the_gpu(shape, over):
    t = f"f32[{shape[0]}, {shape[1]}]"
    text = f"program p(x: {t}) -> {t} {{\n  y = map(x) {{ epilogue relu(acc) }}\n  return y\n}}"
    same = predict(resolve(check(text).program, 132), hardware.load("h200")).ms
    assert ms(shape, over) == pytest.approx(same, rel=0.01)


def test_few_rows_take_longer_than_as_many_bytes_in_many():
    assert ms((4, 1 << 22), "n") > 10 * ms((4096, 4096), "n")
    assert ms((1 << 16, 256), "m") > 10 * ms((256, 1 << 16), "n")
