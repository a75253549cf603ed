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


def test_it_fits_in_2940_tokens():
    assert tokens(TEXT) <= 2940


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


# ---- what it says of limits and prices is what the checks and the model do ----

GEMM = "program p(x: f16[512, 512], w: f16[512, 512]) -> f16[512, RESULT] {{ y = gemm(x, w.T) {{ {} }} return y }}"
CONV = """program p(x: f16[8, 64, 32, 32], w: f16[64, 64, 3, 3]) -> f16[8, 64, 32, 32] {{
  xl = transform(x) {{ layout nhwc }}
  wl = transform(w) {{ layout nhwc  prepack }}
  y = conv2d(xl, wl) {{ padding 1x1  store nchw  {} }}
  return y
}}"""
ROWS = """program p(x: f32[8, 64, 32, 32], w: f32[64, 64, 3, 3]) -> f32[8, 64, 32, 32] {{
  y = conv2d(x, w) {{ padding 1x1  compute tf32  tile {} }}
  return y
}}"""
SWIGLU = "pairs  backend cute  tile {}  epilogue acc * acc2"


def gemm(clauses, result=512):
    return GEMM.format(clauses).replace("RESULT", str(result))


@pytest.mark.parametrize(
    ("words", "passes", "fails"),
    [
        ("192 on `cute`; cooperative then N in 32s", gemm("tile 192x160x64  schedule cooperative"),
         gemm("tile 192x144x64  schedule cooperative")),
        ("192 on `cute`", gemm("tile 192x128x64  backend cute"), gemm("tile 192x128x64  backend cpp")),
        ("`cute`: tile N in 32s, M not 192", gemm(SWIGLU.format("128x96x64"), 256),
         gemm(SWIGLU.format("128x80x64"), 256)),
        ("`cute`: tile N in 32s, M not 192", gemm(SWIGLU.format("128x128x64"), 256),
         gemm(SWIGLU.format("192x128x64"), 256)),
        ("8M divides tile N, 8N tile M", gemm("tile 128x96x64  cluster 4x1x1"), gemm("tile 128x80x64  cluster 4x1x1")),
        ("`cute` without cluster", CONV.format("backend cpp  tile 128x64x64  cluster 2x1x1"),
         CONV.format("backend cute  tile 128x64x64  cluster 2x1x1")),
        ("pixels (in 32s", ROWS.format("64x64x72"), ROWS.format("64x48x72")),
        ("A convolution has none: reduce after it", gemm("store f32  epilogue row_sum(acc)").replace(
            "f16[512, 512] {", "f32[512] {"), CONV.format("epilogue row_sum(acc)")),
        ("each at most once", "program p(x: f16[8, 64]) -> f16[64, 8] { t = transform(x) { view 4x128 }"
         " y = transform(t) { view 64x8 } return y }",
         "program p(x: f16[8, 64]) -> f16[64, 8] { y = transform(x) { view 4x128  view 64x8 } return y }"),
        ("of a parameter or its prepacked transform",
         "program p(x: f16[8, 64], w: f16[64, 60]) -> f16[8, 64] { a = transform(w) { pad 64x64  prepack }"
         " b = transform(a) { permute 1x0  prepack } y = gemm(x, b) { } return y }",
         "program p(x: f16[8, 64], w: f16[64, 60]) -> f16[8, 64] { a = transform(w) { pad 64x64 }"
         " b = transform(a) { permute 1x0  prepack } y = gemm(x, b) { } return y }"),
    ],
)  # fmt: skip
def test_a_limit_that_it_names_is_the_checks(words, passes, fails):
    assert words in " ".join(TEXT.split())
    good, bad = check(passes), check(fails)
    assert good.ok, [d.render(passes) for d in good.diagnostics]
    assert not bad.ok


@pytest.mark.parametrize("names", ["m, n", "b, c", "l, m, n", "b, c, w", "b, c, h, w", "b, c, m, n"])
def test_the_axes_of_each_rank_are_by_place(names):
    rank = len(names.split(", "))
    shape = ", ".join(["8", "16", "32", "64"][-rank:])
    text = f"program p(x: f32[{shape}], r: f32[{shape}]) -> f32[{shape}] {{"
    checked = check(f"{text} y = map(x) {{ epilogue acc + r[{names}] }} return y }}")
    assert checked.ok, checked.diagnostics
    listed = "(rank 2 m n or b c; 3 l m n or b c w; 4 b c h w, the last two also m n)"
    assert listed in " ".join(TEXT.split())


def test_it_says_which_clauses_a_prediction_ignores():
    assert "predictions ignore stages, and swizzle within L2" in TEXT
    tile = "tile 128x128x64  schedule cooperative  "
    times = {
        predict(resolve(check(gemm(tile + more)).program, 132), load("h200")).ms
        for more in ("stages 2", "stages 4", "swizzle 1", "swizzle 8")
    }
    assert len(times) == 1


def test_crop_and_pad_act_at_the_end():
    assert "`crop 8x500` (at the end)" in " ".join(TEXT.split())


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
