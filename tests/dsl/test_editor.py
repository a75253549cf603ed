"""As-you-type help: what completion offers at a place, what hover shows, and that no text breaks either."""

import subprocess
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.check.families import FAMILIES
from dsl.check.program import check
from dsl.editor.completion import complete, describe
from dsl.editor.vocabulary import ENTRIES, vocabulary
from dsl.functions import EVERY

from .test_no_text_breaks_it import EVERYTHING

HEAD = "program p(x: f16[1024, 512], w: f16[256, 512], b: f32[256], s: f32[]) -> f16[1024, 256] {\n"


def offered(text: str) -> list[str]:
    """The labels offered at `|`."""
    before, after = text.split("|")
    completion = complete(before + after, before.count("\n") + 1, len(before) - before.rfind("\n"))
    typed = len(before) - before.rfind("\n") - completion.start
    assert all(o.label.startswith(before[len(before) - typed :]) for o in completion.options)
    return [o.label for o in completion.options]


@pytest.mark.parametrize(
    ("text", "some"),
    [
        ("pro|", {"program"}),
        ("program p(x: b|", {"bf16"}),
        ("program p(x: f16[8, 8]) -> |", {"f16", "f32"}),
        (HEAD + "  arch |", {"sm_90a", "sm_80"}),
        (HEAD + "  launch |", {"graph"}),
        (HEAD + "  y = conv|", {"conv2d", "conv_transpose3d"}),
        (HEAD + "  y = gemm(|", {"x", "w", "b", "s"}),
        (HEAD + "  y = gemm(x, w.|", {"T"}),
        (HEAD + "  y = gemm(x, w.T) { s|", {"schedule", "scheduler", "stages", "store", "swizzle"}),
        (HEAD + "  y = gemm(x, w.T) { schedule |", {"cooperative", "pingpong", "auto"}),
        (HEAD + "  y = gemm(x, w.T) { scheduler split_k(|", {"4"}),
        (HEAD + "  y = gemm(x, w.T) { compute |", {"f16"}),
        (HEAD + "  y = gemm(x, w.T) { store f32 |", {"nchw", "epilogue"}),
        (HEAD + "  y = gemm(x, w.T) { epilogue |", {"acc", "b[n]", "s", "gelu(", "row_sum("}),
        (HEAD + "  y = gemm(x, w.T) { let t = acc  epilogue relu(|", {"t", "acc", "b[n]"}),
        (HEAD + "  y = gemm(x, w.T) { pairs  epilogue silu(acc) * |", {"acc2"}),
        (HEAD + "  y = gemm(x, w.T) { epilogue acc + b[|", {"m", "n"}),
        (HEAD + "  y = gemm(x, w.T) { epilogue acc + b[n] }\n  z = normalize(y) { op s|", {"softmax"}),
        (HEAD + "  y = normalize(x) { op softmax  over |", {"m", "n"}),
        (HEAD + "  y = reduce(x) { op sum  over n  epilogue acc + |", {"s", "relu("}),
        (HEAD + "  y = transform(x) { to |", {"f32", "e4m3"}),
        (HEAD + "  y = gemm(x, w.T)\n  return |", {"y"}),
    ],
)
def test_what_may_stand_here(text, some):
    assert some <= set(offered(text))


@pytest.mark.parametrize(
    ("text", "none"),
    [
        (HEAD + "  y = gemm(x, w.T) { epilogue |", {"y", "y[m, n]", "acc2", "tile"}),
        (HEAD + "  y = gemm(x, w.T) { tile 128x128x64  |", {"tile", "stride"}),
        (HEAD + "  y = gemm(x, w.T) { epilogue acc + |", {"row_sum("}),
        (HEAD + "  y = map(x) { epilogue |", {"row_sum(", "triu("}),
        (HEAD + "  y = reduce(x) { op sum  over n  epilogue acc + |", {"b[n]", "w"}),
        (HEAD + "  y = gemm(x, w.T)\n  return |", {"x", "w"}),
        (HEAD + "  # y = ge|", {"gemm"}),
    ],
)
def test_what_may_not(text, none):
    assert not none & set(offered(text))


@pytest.mark.parametrize("clause", ["tile", "cluster", "stages"])
def test_each_value_that_is_offered_passes(clause):
    written = HEAD + "  arch sm_90a\n  y = gemm(x, w.T) { compute f16  HERE epilogue acc + b[n] * s }\n  return y\n}\n"
    values = offered(written.replace("HERE", f"{clause} | "))
    assert len(values) > 3
    for value in values:
        text = written.replace("HERE", f"{clause} {value}")
        checked = check(text)
        assert checked.ok, [d.render(text) for d in checked.diagnostics]


def test_every_word_has_a_line():
    assert all(e.doc and e.use for e in ENTRIES.values())
    for family in FAMILIES.values():
        assert all(("clause", c) in ENTRIES for c in family.clauses)
    assert {w for kind, w in ENTRIES if kind == "function"} == {f.name for f in EVERY.values() if f.infix is None}


def test_hover_knows_the_language_and_the_program():
    assert describe("tile").kind == "clause" and describe("gelu").use == "gelu(x)" and describe("nothing") is None
    assert describe("w", HEAD + "}").use == "w: f16[256, 512]"
    assert describe("y", HEAD + "  y = gemm(x, w.T)\n  return y }").doc == "gemm stage"


def test_the_highlighter_gets_every_word_once():
    words = vocabulary()
    assert "epilogue" in words["clauses"] and "conv2d" in words["stages"] and words["comment"] == ["#"]
    assert all(len(set(v)) == len(v) for v in words.values())


@settings(max_examples=200)
@given(st.data())
def test_no_place_of_any_text_breaks_it(data):
    text = EVERYTHING
    for _ in range(data.draw(st.integers(0, 2))):
        i = data.draw(st.integers(0, len(text)))
        text = text[:i] + data.draw(st.sampled_from(["", "{", "}", "(", "let ", "é", "tile "])) + text[i + 7 :]
    line = data.draw(st.integers(-1, text.count("\n") + 3))
    completion = complete(text, line, data.draw(st.integers(-1, 130)))
    assert completion.to_json()["options"] is not None


@settings(max_examples=100)
@given(st.text(max_size=200), st.integers(-3, 9), st.integers(-3, 99))
def test_any_text(text, line, col):
    complete(text, line, col)
    describe("x", text)


def test_it_answers_while_one_types():
    at = EVERYTHING.index("epilogue t }")
    complete(EVERYTHING, 1, 1)
    start = time.process_time()
    complete(EVERYTHING, EVERYTHING.count("\n", 0, at) + 1, at - EVERYTHING.rfind("\n", 0, at) + 9)
    assert time.process_time() - start < 0.5


def test_it_needs_no_back_end():
    code = "import sys, dsl.editor.completion; print([m for m in sys.modules "
    code += "if m.split('.')[0] in ('torch', 'cutlass', 'jinja2')])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
