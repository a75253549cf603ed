"""What hover shows: a word in the sense that it has at its place, a name with its type, a number by its clause."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.editor.hover import hover

from .test_no_text_breaks_it import EVERYTHING, WORDS

PROGRAM = """program p(x: f16[256, 512], w: f16[1024, 512], b: f32[1024], s: f32[]) -> (f16[256, 1024], f32[256]) {
  arch sm_90a   # the arch
  y = gemm(x, w.T) {
    tile 128x128x64
    schedule pingpong
    let t = max(acc + b[n], 0.0) * s
    also top = row_max(t)
    store f16
    epilogue gelu(t)
  }
  z = reduce(y) { op max  over n  store f32 }
  return y, z
}
"""


def at(place: str, text: str = PROGRAM):
    """The hover of the word behind `|` in a piece of the text."""
    before, after = place.split("|")
    offset = text.index(before + after) + len(before)
    hint = hover(text, text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset))
    return hint and (hint.entry.kind, hint.entry.word, hint.entry.use, hint.entry.doc)


@pytest.mark.parametrize(
    ("place", "kind", "word"),
    [
        ("|program p", "keyword", "program"),
        ("x: |f16", "type", "f16"),
        ("  |arch sm", "keyword", "arch"),
        ("arch |sm_90a", "value", "sm_90a"),
        ("= |gemm(", "stage", "gemm"),
        ("w.|T", "keyword", "T"),
        ("|tile 128", "clause", "tile"),
        ("tile 128|x128x64", "clause", "tile"),
        ("schedule |pingpong", "value", "pingpong"),
        ("|let t", "clause", "let"),
        ("= |max(acc", "function", "max"),
        ("max(|acc", "keyword", "acc"),
        ("b[|n]", "axis", "n"),
        ("store |f16", "type", "f16"),
        ("|epilogue gelu", "clause", "epilogue"),
        ("|gelu(t)", "function", "gelu"),
        ("op |max", "clause", "op"),
        ("over |n", "axis", "n"),
        ("|return y", "keyword", "return"),
    ],
)
def test_a_word_of_the_language(place, kind, word):
    assert at(place)[:2] == (kind, word)


@pytest.mark.parametrize(
    ("place", "use", "doc"),
    [
        ("|x, w.T", "x: f16[256, 512]", "parameter"),
        ("* |s", "s: f32[]", "parameter"),
        ("|y = gemm", "y: f16[256, 1024]", "result of a gemm"),
        ("reduce(|y)", "y: f16[256, 1024]", "result of a gemm"),
        ("return y, |z", "z: f32[256]", "result of a reduce"),
        ("let |t", "t", "a part of y"),
        ("gelu(|t)", "t", "a part of y"),
        ("also |top", "top: f32[256]", "second result of y"),
    ],
)
def test_a_name_of_the_program(place, use, doc):
    text = PROGRAM.replace("return y, z", "return y, top") if "top" in place else PROGRAM
    assert at(place, text)[2:] == (use, doc)


@pytest.mark.parametrize("place", ["# |the", "gemm|(", " |  # the", "= max(acc + b[n], 0.0) |* s"])
def test_where_there_is_nothing_to_say(place):
    assert at(place) is None


def test_a_wrong_program_still_has_its_words():
    assert at("|tile 12", "program p(x: f16[8, 8]) -> f16[8, 8] { y = gemm(x, x.T) { tile 12")[1] == "tile"


@settings(max_examples=200)
@given(st.data())
def test_no_place_of_any_text_breaks_it(data):
    text = EVERYTHING
    for _ in range(data.draw(st.integers(0, 2))):
        i = data.draw(st.integers(0, len(text)))
        text = text[:i] + data.draw(st.sampled_from(["", "{", "}", "é", *WORDS])) + text[i + 7 :]
    hint = hover(text, data.draw(st.integers(-1, text.count("\n") + 3)), data.draw(st.integers(-1, 130)))
    assert hint is None or hint.to_json()["doc"]
