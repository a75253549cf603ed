"""What a rejection says: the code, the place with a caret, this program's numbers, and a way out that really passes."""

import re
from dataclasses import replace

import pytest

from dsl.check.program import check
from dsl.diagnostics import Diagnostic
from dsl.ir import Span

LINEAR = """program p(x: f16[1024, 8192], w: f16[8192, 8192]) -> f16[1024, 8192] {{
  arch sm_90a
  y = gemm(x, w.T) {{
    schedule cooperative
    {}
  }}
  return y
}}
"""


def only(text: str) -> Diagnostic:
    (d,) = check(text).diagnostics
    return d


def test_shared_memory_is_counted_out_and_the_nearest_programs_pass():
    text = LINEAR.format("tile     256x192x64  stages 4")
    d = only(text)
    assert d.render(text) == (
        "E204 tile needs 246,784 bytes of shared memory; sm_90a gives a block 232,448\n"
        "  5 |     tile     256x192x64  stages 4\n"
        "    |              ^^^^^^^^^^\n"
        "    = mainloop 4 stages x 56 KiB + epilogue 16 KiB + barriers 1 KiB\n"
        "    = help: 3 stages fit (stages 3), or tile 256x160x64 with 4"
    )
    assert 4 * 56 * 1024 + 16 * 1024 + 1024 == 246_784
    assert check(text.replace("stages 4", "stages 3")).ok
    assert check(text.replace("256x192x64", "256x160x64")).ok


@pytest.mark.parametrize(
    "clauses",
    [
        "tile 100x128x64", "tile 128x100x64", "tile 128x128x20", "tile 256x256x64", "tile 512x128x64", "tile 64x64x64",
        "cluster 3x1x1", "cluster 16x1x1", "cluster 1x1x2", "stages 1", "stages 40", "swizzle 3",
        "tile 128x256x128 stages 4", "tile 256x16x64 cluster 4x1x1", "tile 128x128x64 cluster 16x2x1 stages 9",
        "tile 0x0x0",
    ],
)  # fmt: skip
def test_the_help_of_a_configuration_is_a_program_that_passes(clauses):
    text = LINEAR.format(clauses)
    diagnostics = check(text).diagnostics
    assert diagnostics
    for d in diagnostics:
        # Apply each way out that the help names, one diagnostic after the other.
        word, value = re.search(r"(tile|cluster|stages|swizzle) ([0-9][0-9x]*)", d.help).groups()
        if word in text.split("{", 2)[2]:
            text = re.sub(rf"\b{word} +\w+", f"{word} {value}", text)
        else:
            text = text.replace("schedule", f"{word} {value}  schedule")
    again = check(text)
    assert again.ok, text + "\n".join(d.render(text) for d in again.diagnostics)


def test_several_mistakes_are_all_reported_in_reading_order():
    text = LINEAR.format("tile 100x128x64\n    cluster 3x1x1\n    swizzle 5\n    epilogue leaky(acc) + c[n]")
    assert [d.code for d in check(text).diagnostics] == ["E203", "E206", "E211", "E303", "E301"]


def test_json_holds_what_is_rendered():
    text = LINEAR.format("swizzle 3")
    d = only(text)
    assert d.to_json() == {
        "code": "E211", "message": d.message, "line": 5, "col": 13, "end_line": 5, "end_col": 14, "notes": [],
        "help": "swizzle 2",
    }  # fmt: skip


def test_a_caret_stands_under_its_word_after_tabs():
    d = Diagnostic("E001", "no", Span(1, 3, 1, 5))
    assert d.render("\t\tab c").split("\n")[1:] == ["  1 | \t\tab c", "    | \t\t^^"]


def test_a_long_line_is_shown_around_the_caret():
    d = Diagnostic("E001", "no", Span(1, 5001, 1, 5004))
    shown = d.render("x" * 5000 + "abc" + "y" * 5000).split("\n")
    assert len(shown[1]) < 130
    at = shown[2].index("^")
    assert shown[1][at : at + 3] == "abc"


def test_a_span_past_the_text_does_not_break_rendering():
    d = Diagnostic("E001", "no", Span(7, 900, 9, 1))
    assert d.render("one line") == "E001 no"
    assert "^" in replace(d, span=Span(1, 900, 9, 1)).render("one line")
