"""Whatever the text, `check` answers with diagnostics or a program, quickly, and never with an exception."""

import random
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dsl.check import check
from dsl.syntax import ProgramError, parse

WORDS = [
    word
    for line in (
        "program|p|x|y|w|(|)|{|}|[|]|->|:|,|=|.|.T|arch|sm_90a|gemm|transform|conv2d|return|tile|cluster|schedule",
        "scheduler|split_k(4)|stream_k|auto|epilogue|acc|+|-|*|/|relu(|leaky_relu(|n|m|l|128x256x64|2x1x1|0|1|0.5",
        "1e999|f16|f32|f16[64, 64]|to|prepack|store|compute|stages|#|\n|é|ᵀ|\0|\t|\r|\\|\"|'|;|99999999999999999",
    )
    for word in line.split("|")
]
GOOD = """program p(x: f16[64, 64], w: f16[64, 64], b: f32[64]) -> f16[64, 64] {
  arch sm_90a
  xh = transform(x) { to bf16  prepack }
  wh = transform(w) { to bf16  prepack }
  y = gemm(xh, wh.T) { tile 64x64x64  scheduler persistent  store f16  epilogue gelu(acc + b[n]) * 2.0 }
  return y
}
"""


def judged(text: str) -> None:
    checked = check(text)
    assert checked.ok != bool(checked.diagnostics)
    for d in checked.diagnostics:
        assert d.render(text) and d.to_json()
    try:
        parse(text)
    except ProgramError as error:
        assert error.diagnostics


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_any_text(text):
    judged(text)


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=80))
def test_any_words_of_the_language(words):
    judged(" ".join(words))


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_a_good_program_with_pieces_lost_swapped_or_added(data):
    text = GOOD
    for _ in range(data.draw(st.integers(1, 4))):
        i, j = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
        text = text[:i] + data.draw(st.sampled_from(["", " ", *WORDS])) + text[min(j, i + 12) :]
    judged(text)


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "\n" * 1000, "\ufeff" + GOOD, "(" * 60_000, "[" * 200, "-" * 2000,
        GOOD.replace("acc", "-" * 500 + "acc"), GOOD.replace("acc", "(" * 40 + "acc" + ")" * 40),
        GOOD.replace("acc", " + ".join(["acc"] * 300)), GOOD.replace("64", "9" * 5000), GOOD.replace("2.0", "1e99999"),
        GOOD.replace("2.0", "1" * 300), GOOD.replace("64x64x64", "x".join(["64"] * 500)),
        GOOD.replace("p(", "p" * 50_000 + "("),
        GOOD.replace("\n", "\r\n"), GOOD.replace("\n", "\r"), GOOD.replace("\n", "\u2028"), "\ud800", GOOD * 30,
        "#" * 65_536, "program p() -> f16[] { return y }", "program p(x: f16[]) -> f16[] { y = gemm(x, x) return y }",
        GOOD.replace("64x64x64", "000064x64x64"), GOOD.replace("f16[64, 64]", "f16[" + ", ".join(["1"] * 400) + "]"),
    ],
)  # fmt: skip
def test_odd_texts(text):
    judged(text)


def test_a_carriage_return_before_each_newline_changes_nothing():
    assert check(GOOD.replace("\n", "\r\n")).program == check(GOOD).program


@pytest.mark.parametrize("seed", range(8))
def test_64_kib_of_anything_is_judged_in_a_moment(seed):
    check(GOOD)  # builds the parser once
    rng = random.Random(seed)
    kinds = ["a ", "(", "1 ", "é", "#x\n", "}\n", "a+", "y = gemm(x, w.T) { tiel 4 }\n"]
    text = ("program p(x: f16[64, 64]) -> f16[64, 64] {" if seed % 2 else "") + kinds[seed] * 70_000
    text = text[: 65_536 - rng.randint(0, 3)]
    start = time.perf_counter()
    judged(text)
    # 50 ms is the target on an idle machine; the bound only has to catch anything that is not linear.
    assert time.perf_counter() - start < 1.0
