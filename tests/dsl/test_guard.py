"""`guard f32`: what can be guarded, and the pipeline in f32 that it falls back to."""

from dataclasses import replace
from pathlib import Path

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.editor.formatter import formatted
from dsl.guard import conversions, rescue, watched, writers
from dsl.ir import DType, TensorType
from dsl.printer import to_text
from dsl.resolve import resolve

SUITE = sorted((Path(__file__).parents[2] / "dsl/examples/suite59").glob("*_f16.ucutlass"))
CONV = """program conv(x: f32[8, 3, 32, 32], w: f32[60, 3, 3, 3], b: f32[60]) -> f32[8, 60] {
  guard f32
  xp = transform(x) { pad 8x8x32x32  layout nhwc  to f16 }
  wp = transform(w) { pad 64x8x3x3  layout nhwc  to f16 }
  y_padded = conv2d(xp, wp) { store f32 }
  y = transform(y_padded) { crop 8x60x30x30 }
  z = reduce(y) { op max  over h, w  epilogue relu(acc + b[c]) }
  return z
}
"""
ROWS = """program rows(x: f32[64, 128], w: f32[256, 128], b: f32[256]) -> (f32[64], f32[64, 256], f32[64, 128]) {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  y = gemm(xh, wh.T) {
    let t = acc + b[n]
    also p = tanh(t)
    store f32
    epilogue row_logsumexp(t)
  }
  q = map(x) { epilogue acc * 2.0 }
  return y, p, q
}
"""


ITSELF = """program itself(x: f32[4, 32, 30, 30], w: f32[48, 32, 3, 3], b: f32[48]) -> f32[4, 48, 14, 14] {
  guard f32
  y = conv2d(x, w) { compute f16  epilogue relu(acc + b[c]) }
  z = pool(y) { op max  window 2x2 }
  return z
}
"""


def guarded(text: str) -> str:
    return text.replace("  arch sm_90a\n", "  arch sm_90a\n  guard f32\n")


def program(text: str):
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]
    return checked.program


def test_casts_and_layouts_are_gone_from_the_second_pipeline():
    assert (
        to_text(rescue(program(CONV)))
        == """\
program conv(x: f32[8, 3, 32, 32], w: f32[60, 3, 3, 3], b: f32[60]) -> f32[8, 60] {
  xp = transform(x) {
    pad 8x8x32x32
  }
  wp = transform(w) {
    pad 64x8x3x3
  }
  y_padded = conv2d(xp, wp) {
    compute f32
  }
  y = transform(y_padded) {
    crop 8x60x30x30
  }
  z = reduce(y) {
    op max
    over h, w
    epilogue relu(acc + b[c])
  }
  return z
}
"""
    )


def test_a_product_s_reduced_rows_are_a_stage_of_their_own():
    assert (
        to_text(rescue(program(ROWS)))
        == """\
program rows(x: f32[64, 128], w: f32[256, 128], b: f32[256]) -> (f32[64], f32[64, 256], f32[64, 128]) {
  y_whole = gemm(x, w.T) {
    compute f32
    also p = tanh(acc + b[n])
    epilogue acc + b[n]
  }
  y = reduce(y_whole) {
    op logsumexp
    over n
  }
  q = map(x) {
    epilogue acc * 2.0
  }
  return y, p, q
}
"""
    )


def test_a_convolution_that_rounds_its_own_operands_is_watched_too():
    p = program(ITSELF)
    assert [conversions(p, s) for s in p.stages] == [("x", "w"), ()]
    y = p.stages[0]
    assert watched(y, p.type_of("x")) and not watched(y, TensorType(DType.F16, (4, 32, 30, 30)))
    assert not watched(program(ITSELF.replace("guard f32", "").replace("f16", "bf16")).stages[0], p.type_of("x"))
    assert writers(p) == ("cpp",) and writers(program(CONV)) == ("cute",)
    assert "compute f32" in to_text(rescue(p)) and "f16" not in to_text(rescue(p))
    assert generate(p).refused["cute"].code == "cute-guard"


@pytest.mark.parametrize("path", SUITE, ids=lambda p: p.stem)
def test_the_f16_programs_of_the_suite_can_be_guarded(path):
    p = check(guarded(path.read_text())).program
    assert check(to_text(p)).program == p and "guard f32" in to_text(p)
    second = rescue(p)
    assert second.params == p.params and second.result_types == p.result_types
    again = check(to_text(second)).program  # a program like any other, with the types that it says it has
    assert again.stages == second.stages and again.results == second.results
    compiled = generate(p)
    assert list(compiled.sources) == ["cute"] and compiled.refused["cpp"].code == "cpp-guard"


def test_layout_keeps_the_line_and_its_remark():
    text = CONV.replace("guard f32", "guard   f32 # as safe as tf32")
    assert "  guard f32  # as safe as tf32\n" in formatted(text, program(text))


def test_auto_is_no_guard():
    assert program(CONV.replace("guard f32", "guard auto")) == replace(program(CONV), guard=False)


LINEAR = """program linear(x: f32[64, 128], w: f32[256, 128], h: f32[64, 256]) -> f32[64, 256] {
  guard f32
  xh = transform(x) { to f16 }
  wh = transform(w) { to f16 }
  y = gemm(xh, wh.T) { store f32  epilogue acc + h[m, n] }
  return y
}"""


@pytest.mark.parametrize(
    ("old", "new", "message", "help"),
    [
        ("transform(w) { to f16", "transform(w) { to f16  prepack", "checks every call, and prepack runs once",
         "leave prepack out"),
        ("h: f32[64, 256]", "h: f16[64, 256]", "h is f16", "h: f32"),
        ("store f32", "store f16", "y is stored in f16, and the caller may need the range of f32",
         "store f32"),
        ("{ to f16 }\n  y", "{ to bf16 }\n  y", "wh casts to bf16", "leave guard out"),
        ("gemm(xh, wh.T) {", "gemm(x, w.T) {", "y computes tf32 from f32", "x_h = transform(x) { to f16 }"),
        ("guard f32", "guard f16", "a guard falls back to f32, not to `f16`", "guard f32"),
    ],
)  # fmt: skip
def test_what_cannot_be_guarded_is_said_with_what_to_write(old, new, message, help):
    wrong = LINEAR.replace(old, new)
    assert wrong != LINEAR and check(LINEAR).ok
    if new.startswith("gemm(x,"):
        wrong = wrong.replace("  xh = transform(x) { to f16 }\n  wh = transform(w) { to f16 }\n", "")
    elif "f16" in new and "-> " not in new and new.startswith("store"):
        wrong = wrong.replace("-> f32", "-> f16")
    elif "bf16" in new:
        wrong = wrong.replace("transform(x) { to f16 }", "transform(x) { to bf16 }")
    diagnostics = [(d.message, d.help) for d in check(wrong).diagnostics]
    assert any(message in text and help == way for text, way in diagnostics), diagnostics


@pytest.mark.parametrize(
    ("old", "new", "message", "help"),
    [
        ("compute f16", "compute tf32", "y computes tf32 from f32", "compute f16"),
        ("compute f16", "compute bf16", "y computes bf16 from f32", "compute f16"),
        ("z = pool(y) { op max  window 2x2 }",
         "yh = transform(y) { view 12x12544  to f16 }\n  z = gemm(yh, yh.T) { store f32 }",
         "a convolution here converts its own operands, and yh is a cast",
         "leave the cast out, or cast all operands"),
        ("z = pool(y) { op max  window 2x2 }", "v = transform(y) { view 12x12544 }\n  z = gemm(v, v.T)",
         "a guard has no f32 kernel for z, a gemm beside a convolution that converts its own operands",
         "leave guard out"),
    ],
)  # fmt: skip
def test_what_cannot_stand_beside_such_a_convolution(old, new, message, help):
    wrong = ITSELF.replace(old, new)
    wrong = wrong.replace("-> f32[4, 48, 14, 14]", "-> f32[12, 12]") if "gemm" in new else wrong
    assert wrong != ITSELF
    diagnostics = [(d.message, d.help) for d in check(wrong).diagnostics]
    assert any(message in text and help == way for text, way in diagnostics), diagnostics


def test_pairs_have_no_kernel_in_f32():
    text = LINEAR.replace("store f32", "pairs  store f32").replace("acc + h", "acc * acc2 + h")
    text = text.replace("f32[64, 256]", "f32[64, 128]")
    assert [d.message for d in check(text).diagnostics] == ["a guard has no f32 kernel for y, a gemm with pairs"]


def test_resolving_gives_what_the_cute_back_end_takes():
    text = guarded(SUITE[0].read_text())
    assert resolve(program(text)).guard


def test_a_stage_that_the_guards_back_end_takes_in_no_configuration_is_an_error():
    """A batched product of one row each with a value for each row in its epilogue: `cpp` alone takes it."""
    text = """program p(x: f32[2, 16, 1, 32], y: f32[2, 16, 32, 32], r: f32[2, 16]) -> f32[2, 16, 1, 32] {
  guard f32
  xh = transform(x) { to f16 }
  yh = transform(y) { to f16 }
  z = gemm(xh, yh) { compute f16  store f32  epilogue acc / r[l] }
  return z
}
"""
    (error,) = check(text).diagnostics
    assert error.code == "E409"
    assert error.message == "only the cute back end writes this guard, and it has no configuration for z"
    assert check(text.replace("  guard f32\n", "")).ok
