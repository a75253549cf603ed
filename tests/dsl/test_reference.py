"""The reference is the model's prompt: short, complete, and every program in it passes."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from dsl.check.families import FAMILIES
from dsl.check.program import check
from dsl.functions import EVERY
from dsl.ir import NORMALIZATIONS, REDUCTIONS
from dsl.resolve import resolve
from dsl.rules import legal
from sol.attainable import predict
from sol.hardware import load

ROOM = Path(__file__).parents[2] / "dsl"
TEXT = (ROOM / "reference.md").read_text()
EXAMPLES = sorted((ROOM / "examples").rglob("*.ucutlass"))
PROGRAMS = re.findall(r"^program .*?^}$", TEXT[TEXT.index("## Examples") :], re.S | re.M)


def tokens(text: str) -> int:
    """An upper estimate of a model's tokens: each run of letters by five, each run of digits by three, each sign."""
    parts = re.findall(r"[A-Za-z]+|[0-9]+|[^\sA-Za-z0-9]", text)
    return sum(-(-len(p) // 5) if p.isalpha() else -(-len(p) // 3) for p in parts)


def test_it_fits_in_2500_tokens():
    assert tokens(TEXT) <= 2500


def test_the_grammar_fits_in_170_lines():
    assert len((ROOM / "grammar.lark").read_text().splitlines()) <= 170


def test_it_names_every_function_clause_and_stage():
    for function in (f for f in EVERY.values() if f.infix is None):
        assert function.signature in TEXT
    clauses = {c for f in FAMILIES.values() for c in f.clauses}
    for word in (*clauses, *legal.SCHEDULES, *legal.BACKENDS, *REDUCTIONS, *NORMALIZATIONS):
        assert re.search(rf"\b{word}\b", TEXT), word
    for op in FAMILIES:
        assert f"{op}(" in TEXT or re.sub(r"\dd$", "2d", op) + "(" in TEXT, op


def test_it_shows_what_stands_between_axes():
    assert re.search(r"over \w, \w", TEXT)


def test_it_states_the_limits_that_the_checks_use():
    for number in (legal.MAX_ACCUMULATORS, legal.MAX_STAGES, legal.MAX_SPLITS, "232,448"):
        assert str(number) in TEXT
    assert f"split_k: n at most {legal.MAX_SPLITS}," in TEXT


def test_it_says_what_a_guard_refuses_and_what_a_graph_does_not_change():
    guarded = TEXT[TEXT.index("`guard f32` computes") :].split("\n- ")[0]
    for word in ("prepack", "pairs", "grouped_gemm"):
        assert word in guarded.split("not with")[1], word
    assert "same predicted time" in TEXT
    program = check(
        "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { } return y }"
    ).program
    times = [predict(resolve(replace(program, graph=graph), 132), load("h200")).ms for graph in (False, True)]
    assert times[0] == times[1]


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda t: t.split("(")[0])
def test_its_programs_pass(text):
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]


def test_there_are_programs_to_check():
    assert len(PROGRAMS) == 3 and len(EXAMPLES) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_pass_and_are_named_as_their_files(path):
    checked = check(path.read_text())
    assert checked.ok, [d.render(path.read_text()) for d in checked.diagnostics]
    if path.parent.name == "examples":
        assert checked.program.name == path.stem


WRITTEN_FROM_IT = {
    "a fused linear, bias and SiLU with a residual": """
        program silu(x: f16[4096, 1024], w: f16[2048, 1024], b: f32[2048], r: f16[4096, 2048]) -> f16[4096, 2048] {
          y = gemm(x, w.T) { epilogue silu(acc + b[n]) + r[m, n] }
          return y
        }""",
    "a convolution, batch norm and ReLU": """
        program block(x: f32[8, 64, 56, 56], w: f32[128, 64, 3, 3], mean: f32[128], var: f32[128], g: f32[128],
                      b: f32[128]) -> f32[8, 128, 56, 56] {
          xt = transform(x) { layout nhwc  to f16 }
          wt = transform(w) { layout nhwc  to f16  prepack }
          y = conv2d(xt, wt) {
            padding 1x1
            let t = (acc - mean[c]) / sqrt(var[c] + 1e-5)
            epilogue relu(t * g[c] + b[c])
            store f32 nchw
          }
          return y
        }""",
    "the same with batch norm as a stage": """
        program q(x: f16[8, 64, 56, 56], w: f16[128, 64, 3, 3], mean: f32[128], var: f32[128]) -> f16[8, 128, 54, 54] {
          xt = transform(x) { layout nhwc }
          wt = transform(w) { layout nhwc  prepack }
          y = conv2d(xt, wt)
          z = normalize(y, mean, var) { op batchnorm  epilogue relu(acc)  store nchw }
          return z
        }""",
    "a softmax after a product": """
        program attention(q: f16[64, 512, 128], k: f16[64, 512, 128]) -> f16[64, 512, 512] {
          s = gemm(q, k.T) { epilogue acc * 0.0884 }
          p = normalize(s) { op softmax  over n }
          return p
        }""",
}


@pytest.mark.parametrize("task", WRITTEN_FROM_IT)
def test_what_a_reader_of_it_alone_wrote_passes(task):
    checked = check(WRITTEN_FROM_IT[task])
    assert checked.ok, [d.render(WRITTEN_FROM_IT[task]) for d in checked.diagnostics]
