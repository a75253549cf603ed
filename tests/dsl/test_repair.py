"""The help of a rejection as an edit: offered only where it works, and nothing else of the text is touched."""

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl import fixes
from dsl.check.program import check
from dsl.diagnostics import Diagnostic
from dsl.editor import repair as module
from dsl.editor.repair import MAX_CHARS, repairs

from .test_no_text_breaks_it import EVERYTHING, WORDS
from .test_wrong_programs import WRONG

GEMM = """program p(x: f16[256, 512], w: f16[1024, 512], b: f32[1024]) -> f16[256, 1024] {
  # the product
  y = gemm(x, w.T) {
    HERE  # as measured
    epilogue relu(acc + b[n])
  }
  return y
}
"""


def offered(text: str):
    diagnostics = check(text).diagnostics
    return list(zip(diagnostics, repairs(text, diagnostics), strict=True))


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_a_repair_ends_the_mistake_and_keeps_the_comments(path):
    text = path.read_text()
    for wrong, repair in offered(text):
        if repair is None:
            continue
        result = repair.apply(text)
        assert (wrong.code, wrong.message) not in {(d.code, d.message) for d in check(result).diagnostics}
        assert re.findall("#.*", result) == re.findall("#.*", text)


def test_most_help_that_names_a_text_is_offered():
    pairs = [pair for path in WRONG for pair in offered(path.read_text()) if pair[0].help]
    assert sum(repair is not None for _, repair in pairs) / len(pairs) > 0.6


@pytest.mark.parametrize(
    ("clause", "title", "becomes"),
    [
        ("tile 256x256x64", "use tile 256x208x64", "tile 256x208x64"),
        ("tile 128x128x64  schedule pingpnog", "write pingpong", "tile 128x128x64  schedule pingpong"),
        ("tile 128x64x32  stages 1", "use stages 2", "tile 128x64x32  stages 2"),
        ("tile 128x128x64  tile 64x64x64", "leave tile 64x64x64 out", "tile 128x128x64"),
        ("schedule cooperative  tile 64x128x64", "use schedule pingpong", "schedule pingpong  tile 64x128x64"),
        ("schedule pingpnog  tile 256x208x64", "write pingpong", "schedule pingpong  tile 256x208x64"),
        ("tiel 128x128x64", "write tile", "tile 128x128x64"),
        (
            "schedule pingpong  scheduler split_k(2)",
            "use scheduler persistent",
            "schedule pingpong  scheduler persistent",
        ),
        ("schedule cooperative  scheduler split_k", "use split_k(4)", "schedule cooperative  scheduler split_k(4)"),
    ],
)
def test_the_edit_is_what_the_help_says(clause, title, becomes):
    text = GEMM.replace("HERE", clause)
    (_, repair), *rest = offered(text)
    assert not rest and repair.title == title
    assert repair.apply(text) == GEMM.replace("HERE", becomes)


@pytest.mark.parametrize(
    ("params", "product", "becomes"),
    [
        ("x: f16[64, 100], w: f16[32, 100]", "gemm(x, w.T)",
         "x_ = transform(x) { pad 64x104 }\n  w_ = transform(w) { pad 32x104 }\n  y = gemm(x_, w_.T)"),
        ("x: f32[8, 64, 99], w: f32[99, 32]", "gemm(x, w)",
         "x_ = transform(x) { pad 8x64x100 }\n  w_ = transform(w) { pad 100x32 }\n  y = gemm(x_, w_)"),
        ("x: f16[64, 100]", "gemm(x, x.T)", "x_ = transform(x) { pad 64x104 }\n  y = gemm(x_, x_.T)"),
    ],
)  # fmt: skip
def test_k_is_padded_in_both_operands(params, product, becomes):
    batch = "8, " if "8, 64" in params else ""
    result = f"{params[3:6].strip()}[{batch}64, {64 if 'x.T' in product else 32}]"
    text = f"program p({params}) -> {result} {{\n  y = {product}\n  return y\n}}\n"
    repair = offered(text)[0][1]
    assert repair.title == "pad K with zeros" and repair.apply(text) == text.replace(f"y = {product}", becomes)
    assert check(repair.apply(text)).ok


def test_repairing_again_and_again_comes_to_an_end():
    for path in WRONG:
        text = path.read_text()
        for _ in range(12):
            repair = next((r for _, r in offered(text) if r), None)
            if repair is None:
                break
            text = repair.apply(text)
        else:
            raise AssertionError(f"{path.stem} is repaired for ever:\n{text}")


def test_a_long_text_is_not_repaired():
    text = GEMM.replace("HERE", "tile 256x256x64") + "#" * MAX_CHARS
    assert [repair for _, repair in offered(text)] == [None]


@settings(max_examples=75)
@given(st.data())
def test_no_text_breaks_it(data):
    text = EVERYTHING
    for _ in range(data.draw(st.integers(1, 3))):
        i = data.draw(st.integers(0, len(text)))
        text = text[:i] + data.draw(st.sampled_from(["", " ", "\n", *WORDS])) + text[i + data.draw(st.integers(0, 9)) :]
    for wrong, repair in offered(text):
        if repair is not None:
            after = check(repair.apply(text)).diagnostics
            # The parser's one message may be the same again, further on: it read past what was put right.
            past = {d for d in after if d.code == "E001" and _at(d) > _at(wrong)}
            # The same mistake may stand in two stages; each has a repair of its own.
            left = [d.mistake for d in after if d not in past].count(wrong.mistake)
            assert left < [d.mistake for d in check(text).diagnostics].count(wrong.mistake)


def _at(d) -> tuple[int, int]:
    return d.span.line, d.span.col


@pytest.mark.parametrize(("schedule", "ways"), [("pingpong", 2), ("cooperative", 1)])
def test_a_rule_names_the_schedule_that_it_needs(schedule, ways):
    """split_k needs the cooperative schedule; with it, too many splits leave only one way out."""
    splits = 2 if schedule == "pingpong" else 1000
    (wrong,) = check(GEMM.replace("HERE", f"schedule {schedule}  scheduler split_k({splits})")).diagnostics
    settings = [("scheduler", "persistent"), ("schedule", "cooperative")][:ways]
    assert wrong.code == "E208" and wrong.fixes == tuple(fixes.SetClauses((s,)) for s in settings)


# ---- the fix is data, and no sentence is read ----

SENTENCES = {"help", "message", "notes", "render", "to_json"}


def test_the_module_reads_no_sentence_of_a_diagnostic():
    """It compares mistakes by `Diagnostic.mistake`, and edits by `Diagnostic.fixes`."""
    tree = ast.parse(Path(module.__file__).read_text())
    read = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute)}
    named = {n.value for n in ast.walk(tree) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    assert "fixes" in read and not SENTENCES & (read | named)


# A text for each kind of fix that no file of wrong/ shows.
MORE = [
    GEMM.replace("HERE", "stages 3, swizzle 2"),
    GEMM.replace("y = gemm(x, w.T) {", "y = softmax(x) {").replace("HERE", "").replace("epilogue relu(acc + b[n])", ""),
    GEMM.replace("HERE", "").replace("x: f16[256, 512]", "x: f16[256, 500]").replace("1024, 512]", "1024, 500]"),
]


def test_every_kind_of_fix_is_offered_as_a_repair():
    offers = set()
    for text in [*MORE, *(path.read_text() for path in WRONG)]:
        for d, repair in offered(text):
            if repair is not None:
                assert d.fixes
                offers |= {type(f) for f in d.fixes}
    assert offers == set(get_args(fixes.Fix))


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_the_words_of_a_help_do_not_matter(path, monkeypatch):
    text = path.read_text()
    before = [repair for _, repair in offered(text)]
    plain = Diagnostic.of.__func__
    mute = classmethod(lambda cls, *args: replace(plain(cls, *args), help="quite other words"))
    monkeypatch.setattr(Diagnostic, "of", mute)
    assert [repair for _, repair in offered(text)] == before


def test_a_fix_is_named_by_its_help():
    """The sentence and the data are two forms of one way out: what an edit writes is in the words."""
    for path in WRONG:
        for d in check(path.read_text()).diagnostics:
            for fix in d.fixes:
                if isinstance(fix, fixes.Respell | fixes.Rewrite):
                    assert (fix.title if isinstance(fix, fixes.Rewrite) and fix.title else fix.text) in d.help
                if isinstance(fix, fixes.SetClauses):
                    assert all(word in d.help for word, _ in fix.clauses)


@pytest.mark.parametrize(
    ("params", "clauses", "becomes"),
    [
        ("x: f16[64, 512]", "view 64x2x256  permute 1x0x2  view 256x128",
         "y_ = transform(x) { view 64x2x256  permute 1x0x2 }\n  y = transform(y_) { view 256x128 }"),
        ("x: f16[256, 100]", "prepack  pad 256x136  crop 256x128",
         "y_ = transform(x) { pad 256x136  prepack }\n  y = transform(y_) { prepack  crop 256x128 }"),
        ("x: f16[256, 130]", "crop 256x120  pad 256x128",
         "y_ = transform(x) { crop 256x120 }\n  y = transform(y_) { pad 256x128 }"),
    ],
)  # fmt: skip
def test_a_transform_that_changes_twice_becomes_two(params, clauses, becomes):
    text = f"program p({params}) -> f16[256, 128] {{\n  y = transform(x) {{ {clauses} }}\n"
    text += "  z = map(y) { epilogue relu(acc) }\n  return z\n}\n"
    (wrong, repair), *_ = offered(text)
    assert wrong.help == "two transforms, one after the other"
    assert repair.apply(text) == text.replace(f"y = transform(x) {{ {clauses} }}", becomes)
    assert check(repair.apply(text)).ok
