"""Under a guard a result may be rounded to f16 where it is stored, as long as products alone read it."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.guard import rescue
from dsl.narrowed import known_range, watched_stores, wider_reader
from dsl.printer import to_text

CHAIN = """program chain(x: f32[64, 128], w: f32[256, 128], v: f32[64, 256], b: f32[256]) -> f32[64, 64] {
  guard f32
  wh = transform(w) { to f16 }
  vh = transform(v) { to f16 }
  n = normalize(x) { op layernorm  over n  store f16 }
  h = gemm(n, wh.T) { store f16  epilogue gelu(acc + b[n]) }
  g = transform(h) { view 4x16x256 }
  k = transform(g) { view 64x256 }
  y = gemm(k, vh.T) { store f32 }
  return y
}
"""


def program(text: str):
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return checked.program


def test_what_products_alone_read_is_rounded_where_it_is_stored_and_watched_there():
    p = program(CHAIN)
    assert [watched_stores(p, s) for s in p.stages] == [(), (), ("n",), ("h",), (), (), ()]
    assert wider_reader(p, "h") is None and wider_reader(p, "y") == "the caller"
    text = generate(p).sources["cute"].text
    assert "class Watched(" in text and "watch(greatest(Uint32(0), out), guard_flag)" in text


def test_the_second_pipeline_keeps_all_of_it_in_f32():
    assert "f16" not in to_text(rescue(program(CHAIN)))


HEAD = """program p(x: f32[64, 128], w: f32[128, 128]) -> f32[64, 128] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
"""


@pytest.mark.parametrize(
    ("stages", "why"),
    [
        (("h = gemm(xh, wh.T) { store f16 }", "q = map(h) { store f16  epilogue relu(acc) }",
          "y = gemm(q, wh.T) { store f32 }"),
         "h is stored in f16, and q may need the range of f32"),
        (("h = gemm(xh, wh.T) { store f16 }", "y = gemm(h, wh.T) { store f32  epilogue acc + h[m, n] }"),
         "h is stored in f16, and y may need the range of f32"),
        (("h = gemm(xh, wh.T) { store f16 }", "v = transform(h) { view 64x64x2 }",
          "s = reduce(v) { op sum  over c, w  store f32 }", "y = gemm(h, wh.T) { store f32  epilogue acc + s[m] }"),
         "h is stored in f16, and s may need the range of f32"),
        (("g = gemm(xh, wh.T) { store f32 }", "i = transform(g) { view 64x128x1x1 }",
          "h = pool(i) { op max  window 1x1  store f16 }", "v = transform(h) { view 64x128 }",
          "y = gemm(v, wh.T) { store f32 }"),
         "h is stored in f16; a guard checks the stores of products, normalize, map and concat only"),
        (("h = gemm(xh, wh.T) { store bf16 }", "y = map(h) { store f32  epilogue relu(acc) }"),
         "a guard checks conversions to f16, and h is stored in bf16"),
    ],
)  # fmt: skip
def test_who_needs_f32_is_named(stages, why):
    wrong = HEAD + "".join(f"  {line}\n" for line in stages) + "  return y\n}\n"
    diagnostics = [(d.message, d.help) for d in check(wrong).diagnostics]
    assert (why, "store f32") in diagnostics, diagnostics


SOFTMAX = """program attention(q: f32[4, 64, 1024], v: f32[4, 1024, 64]) -> f32[4, 64, 64] {
  guard f32
  vh = transform(v) { to f16 }
  p = normalize(q) { op softmax  over w  store f16  epilogue acc * 32768.0 }
  y = gemm(p, vh) { store f32  epilogue acc * 3.0517578125e-05 }
  return y
}
"""


@pytest.mark.parametrize(
    ("epilogue", "known"),
    [
        ("acc * 32768.0", True),
        ("1024.0 * acc", True),  # the largest of a row is at least 1
        ("acc * 512.0", False),
        ("acc", False),
        ("acc * 131072.0", False),  # more than f16 holds
        ("gelu(acc)", False),
    ],
)
def test_a_softmax_times_a_number_has_a_known_range(epilogue, known):
    p = program(SOFTMAX.replace("acc * 32768.0", epilogue))
    stage = next(s for s in p.stages if s.name == "p")
    assert known_range(p, stage, stage.epilogue) == known
    assert watched_stores(p, stage) == (() if known else ("p",))
