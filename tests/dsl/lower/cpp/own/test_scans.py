"""scan: running sums and products along rows and across them, forwards and backwards, short and long."""

import pytest

from dsl.lower.cpp import lower
from engine.build import toolchain
from tests import compiled
from tests.dsl.matrix.build import whole

from .emulated import agree, inputs_of, program

ROWS = """program p(a: f32[5, 16], b: f32[3, 1000], c: f16[2, 3, 9240], d: f32[600, 33], e: f32[7], m: f32[3, 1000]) ->
    (f32[5, 16], f32[3, 1000], f32[3, 1000], f32[3, 1000], f32[2, 3, 9240], f32[600, 33], f32[7], f32[3, 1000]) {
  a1 = scan(a) { op sum  over n }
  b1 = scan(b) { op sum  over n  reverse }
  b2 = scan(b) { op sum  over n  of acc * m[m, n]  epilogue acc - acc2 }
  b3 = scan(b) { op sum  over n  reverse  let t = acc - acc2  also b4 = relu(t)  epilogue t + m[m, n] }
  c1 = scan(c) { op sum  over w  store f32 }
  d1 = scan(d) { op sum  over n }
  e1 = scan(e) { op sum  over n  reverse }
  return a1, b1, b2, b3, c1, d1, e1, b4
}"""
COLUMNS = """program p(a: f32[40, 24], b: f32[2, 37, 6, 5], c: f16[2, 3, 16, 8], s: f32[24], v: f32[40]) ->
    (f32[40, 24], f32[40, 24], f32[2, 37, 6, 5], f32[2, 37, 6, 5], f16[2, 3, 16, 8], f32[2, 37, 6, 5]) {
  a1 = scan(a) { op sum  over m  of acc * v[m]  epilogue acc * s[n] }
  a2 = scan(a) { op sum  over m  reverse  epilogue acc - acc2 }
  b1 = scan(b) { op sum  over c }
  b2 = scan(b) { op sum  over b }
  c1 = scan(c) { op sum  over h  reverse }
  l = transform(b) { layout nhwc }
  b3 = scan(l) { op sum  over h  store f32 nchw }
  return a1, a2, b1, b2, c1, b3
}"""
PRODUCTS = """program p(a: f32[3, 300], b: f32[50, 12]) -> (f32[3, 300], f32[50, 12], f32[3, 300]) {
  a1 = scan(a) { op prod  over n  of 1 + 0.01 * acc }
  b1 = scan(b) { op prod  over m  of 1 + 0.1 * acc  reverse  epilogue log(abs(acc)) }
  a2 = scan(a) { op prod  over n  reverse  of 1 + 0.01 * acc  epilogue acc / acc2 }
  return a1, b1, a2
}"""


@pytest.mark.parametrize("text", [ROWS, COLUMNS, PRODUCTS], ids=["rows", "columns", "products"])
def test_every_element_is_what_came_up_to_it(text, tmp_path):
    agree(text, tmp_path)


def test_a_wide_row_keeps_the_order_of_its_elements(tmp_path):
    """Whole numbers add up exactly, so that a missing, doubled or late element shows."""
    p = program("program p(x: f32[2, 4100]) -> f32[2, 4100] {\n y = scan(x) { op sum  over n }\n return y\n}")
    (x,) = inputs_of(p)
    whole_numbers = (x * 4).round()
    (y,) = agree(str_of(p), tmp_path, [whole_numbers])
    assert y.equal(whole_numbers.cumsum(1))


def str_of(p) -> str:
    from dsl.printer import to_text

    return to_text(p)


@pytest.mark.toolchain
@pytest.mark.parametrize("text", [ROWS, COLUMNS], ids=["rows", "columns"])
def test_they_compile_for_a_gpu(text):
    if not (tools := toolchain.find()).cpp:
        pytest.skip("; ".join(tools.missing()))
    source = lower(program(text))
    if compiled.wanted("cpp", {"scan": source.text}, always=0):
        whole(source)
        compiled.compiled("cpp", source.text)
