"""concat: its forms and mistakes, and that each operand's kernel writes and reads its own part."""

import pytest

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.printer import to_text


def text(params, body, result):
    return f"program p({params}) -> {result} {{\n  z = concat({body}\n  return z\n}}"


IMAGES = text(
    "x: f32[4, 32, 16, 16], y: f32[4, 48, 16, 16], s: f32[80], r: f32[4, 80, 16, 16]",
    "x, y) { over c  epilogue relu(acc * s[c]) + r[b, c, h, w] }", "f32[4, 80, 16, 16]",
)  # fmt: skip


def test_each_operand_has_a_kernel_that_begins_where_the_one_before_ends():
    program = check(IMAGES).program
    assert check(to_text(program)).program == program
    sources = generate(program).sources
    assert set(sources) == {"cute", "cpp"}
    cute = sources["cute"].text
    assert "i0 * 8192 + i1 * 256 + i2 * 4, i1, i0 * 20480 + i1 * 256 + i2 * 4" in cute
    assert "32 + i1, 8192 + i0 * 20480" in cute and cute.count(".launch(grid") == 2
    assert f"on.t_z) + {32 * 256 * 4}" in sources["cpp"].text and f"on.t_s) + {32 * 4}" in sources["cpp"].text


MIXED = """program p(x: f16[4, 32, 16, 16], y: f16[4, 48, 16, 16]) -> f16[4, 80, 16, 16] {
  l = transform(x) { layout nhwc }
  z = concat(l, y) { over c  store nhwc }
  w = map(z) { epilogue relu(acc)  store nchw }
  return w
}"""


def test_layouts_may_differ_and_a_result_has_one():
    assert set(generate(check(MIXED).program).sources) == {"cute", "cpp"}


WRONG = {
    "E120 concat needs its axis": ("x: f32[4, 8], y: f32[4, 8]", "x, y)"),
    "E119 `h` is not an axis of [4, 8]": ("x: f32[4, 8], y: f32[4, 8]", "x, y) { over h }"),
    "E119 concat runs over one axis": ("x: f32[4, 8], y: f32[4, 8]", "x, y) { over m, n }"),
    "E105 x is [4, 8] and y [5, 8]; they differ along that axis alone": (
        "x: f32[4, 8], y: f32[5, 8]", "x, y) { over n }",
    ),
    "E107 x is f32 and y is f16; all are of one type": ("x: f32[4, 8], y: f16[4, 8]", "x, y) { over n }"),
    "E104 concat takes 2 to 64 tensors; 1 given": ("x: f32[4, 8]", "x) { over n }"),
    "E104 concat reads y as it is, without .T": ("x: f32[4, 4], y: f32[4, 4]", "x, y.T) { over n }"),
    "E306": ("x: f32[4, 8], y: f32[4, 8], b: f32[16]", "x, y) { over n  epilogue acc + b[n + 8] }"),
}  # fmt: skip


@pytest.mark.parametrize("message", WRONG)
def test_each_mistake_is_one_message(message):
    params, body = WRONG[message]
    diagnostics = [d for d in check(text(params, body, "f32[4, 16]")).diagnostics if d.code != "E402"]
    assert len(diagnostics) == 1
    assert f"{diagnostics[0].code} {diagnostics[0].message}".startswith(message)
