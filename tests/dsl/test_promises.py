"""The help for a stage of the wrong kind names the right one: for a shape, a type, a layout, a reduction."""

import pytest

from dsl.check.program import check
from dsl.editor.repair import repairs

CONV = """program p(x: f16[4, 64, 8, 8], w: f16[64, 64, 3, 3]) -> f16[4, 64, 8, 8] {
  xl = transform(x) { layout nhwc }
  wl = transform(w) { layout nhwc  prepack }
  y = conv2d(xl, wl) { padding 1x1  store nchw  epilogue CALL }
  return y
}"""


def program(stages, result, params="x: f16[4, 64, 8, 8]"):
    return f"program p({params}) -> {result} {{\n  {stages}\n  return y\n}}"


def mistake(text, code):
    """The help of the one mistake with this code, and the text after its repair."""
    diagnostics = check(text).diagnostics
    (one,) = [d for d in diagnostics if d.code == code]
    repair = repairs(text, diagnostics)[diagnostics.index(one)]
    return one.help, repair.apply(text) if repair else None


@pytest.mark.parametrize("layout", ["", "  t = transform(x) { layout nhwc }\n"])
def test_a_global_pool_that_is_promised_as_a_matrix_is_a_reduction(layout):
    text = program("y = pool(x) { op avg  window global  epilogue sigmoid(acc) }", "f16[4, 64]")
    if layout:
        text = text.replace("  y = pool(x)", layout + "  y = pool(t)")
    help, repaired = mistake(text, "E110")
    assert help == f"y = reduce({'t' if layout else 'x'}) {{ op mean  over h, w }}, or -> f16[4, 64, 1, 1]"
    assert check(repaired).ok and "epilogue sigmoid(acc)" in repaired


@pytest.mark.parametrize(
    ("actual", "promised", "first"),
    [
        ("4, 1, 64", "4, 64", "return y_ after y_ = transform(y) { view 4x64 }"),  # axes of length 1 are the stage's
        ("4, 64", "4, 1, 64", "return y_ after y_ = transform(y) { view 4x1x64 }"),
        ("4, 16, 4", "4, 64", "-> f16[4, 16, 4], or return y_ after"),
        ("64, 32", "32, 64", "-> f16[64, 32]"),  # no view transposes
    ],
)
def test_a_result_of_another_shape_is_viewed_if_a_view_can(actual, promised, first):
    text = program("y = map(x) { epilogue relu(acc) }", f"f16[{promised}]", f"x: f16[{actual}]")
    help, repaired = mistake(text, "E110")
    assert help.startswith(first) and check(repaired).ok
    assert ("view" in help) == (actual != "64, 32")


@pytest.mark.parametrize(
    ("store", "clauses", "what"),
    [
        ("f16 nhwc", "layout nhwc  to f16", "layout and type"),
        ("f16", "to f16", "type"),
        ("nhwc", "layout nhwc", "layout"),
    ],
)
def test_a_map_that_only_stores_is_a_transform(store, clauses, what):
    text = program(f"t = map(x) {{ store {store} }}\n  y = map(t) {{ store f32 nchw  epilogue relu(acc) }}",
                   "f32[4, 64, 8, 8]", "x: f32[4, 64, 8, 8]")  # fmt: skip
    help, repaired = mistake(text, "E116")
    assert help == f"write it as a transform: t = transform(x) {{ {clauses} }}"
    assert check(repaired).ok and f"transform(x) {{ {clauses} }}" in repaired
    (wrong,) = check(text).diagnostics
    assert wrong.message == f"this map computes nothing; it changes the {what} alone"


def test_a_map_that_stores_what_it_reads_changes_nothing():
    help, _ = mistake(program("y = map(x) { store f16 }", "f16[4, 64, 8, 8]"), "E116")
    assert "relu(acc)" in help


@pytest.mark.parametrize(
    ("call", "stage"),
    [("row_sum(acc)", "op sum  over h, w"), ("row_max(acc)", "op max  over h, w"),
     ("row_logsumexp(acc)", "op logsumexp  over h, w"), ("col_sum(acc)", "op sum  over h, w")],
)  # fmt: skip
def test_a_convolution_is_reduced_over_its_own_axes_in_a_stage_after_it(call, stage):
    help, _ = mistake(CONV.replace("CALL", call), "E312")
    assert help == f"a stage after it: r = reduce(y) {{ {stage} }}; the axes are b, c, h and w"
    reduced = CONV.replace("store nchw  epilogue CALL", "").replace(
        "return y", f"r = reduce(y) {{ {stage} }}\n  return r"
    )
    assert check(reduced.replace("-> f16[4, 64, 8, 8]", "-> f16[4, 64]")).ok


@pytest.mark.parametrize(("call", "over"), [("row_sum(acc)", "n"), ("col_sum(acc)", "m")])
def test_a_map_is_reduced_along_rows_or_columns(call, over):
    help, _ = mistake(program(f"y = map(x) {{ epilogue {call} }}", "f16[64, 32]", "x: f16[64, 32]"), "E312")
    assert f"reduce(y) {{ op sum  over {over} }}" in help


def test_channels_that_lie_last_may_be_viewed_but_not_joined_with_other_axes():
    nhwc = "t = transform(x) { layout nhwc }\n  y = transform(t) { view VIEW }"
    assert check(program(nhwc.replace("VIEW", "4x64x64"), "f16[4, 64, 64]")).ok
    assert check(program(nhwc.replace("VIEW", "2x2x8x8x64"), "f16[2, 2, 8, 8, 64]")).ok
    text = program(nhwc.replace("VIEW", "4x4096"), "f16[4, 4096]")
    help, repaired = mistake(text, "E117")
    assert help == "t_ = transform(t) { layout nchw } first" and check(repaired).ok
