"""Of every schedule and tile that is refused, each help leads to a program that passes within two steps."""

from functools import cache
from itertools import product

import pytest

from dsl.check.program import check as check_anew
from dsl.editor.edits import Source
from dsl.fixes import LeaveClauses, SetClauses

GEMM = """program p(x: TYPE[4096, 1024], w: TYPE[4096, 1024]) -> OUT[4096, 4096] {
  y = gemm(x, w.T) { CLAUSES  store OUT }
  return y
}"""
PAIRS = """program p(x: f16[4096, 1024], w: f16[4096, 1024]) -> f16[4096, 2048] {
  y = gemm(x, w.T) { pairs  CLAUSES  epilogue silu(acc) * acc2 }
  return y
}"""
ALONG_N = """program p(x: TYPE[4096, 1024], w: TYPE[1024, 4096]) -> TYPE[4096, 4096] {
  y = gemm(x, w) { CLAUSES }
  return y
}"""
CONV = """program p(x: TYPE[8, 256, 32, 32], w: TYPE[256, 256, 3, 3]) -> TYPE[8, 256, 30, 30] {
  xt = transform(x) { layout nhwc }
  wt = transform(w) { layout nhwc  prepack }
  y = conv2d(xt, wt) { CLAUSES  store nchw }
  return y
}"""


def program(text: str, dtype: str, out: str = "f16") -> str:
    return text.replace("TYPE", dtype).replace("OUT", out)


PROGRAMS = {
    "gemm in f16": program(GEMM, "f16"),
    "gemm in tf32": program(GEMM, "f32", "f32"),
    "gemm in fp8": program(GEMM, "e4m3"),
    "gemm along n in f16": program(ALONG_N, "f16"),
    "gemm along n in tf32": program(ALONG_N, "f32"),
    "pairs": PAIRS,
    "conv2d in f16": program(CONV, "f16"),
    "conv2d in tf32": program(CONV, "f32"),
}
MS, NS, KS = (64, 100, 128, 192, 256, 320), (16, 40, 64, 128, 192, 208, 256, 300), (64, 256)
TILES = [(m, n, KS[(i + j) % 2]) for (i, m), (j, n) in product(enumerate(MS), enumerate(NS))]
STEPS = 2

check = cache(check_anew)  # ways of different tiles and backends meet in the same texts


def edits(text: str):
    """The text after each fix that a help names."""
    source = Source(text)
    for d in check(text).diagnostics:
        for fix in d.fixes:
            stage = source.stage_of(d.span)
            if isinstance(fix, SetClauses):
                yield source.with_clauses(stage, fix.clauses)
            elif isinstance(fix, LeaveClauses):
                yield source.without_clauses(stage, set(fix.words))


def dead_end(text: str, steps: int = STEPS) -> str | None:
    """A text that is still refused after `steps` helps, whichever is applied first; None if every way passes."""
    if check(text).ok:
        return None
    if not steps:
        return text
    after = list(edits(text))
    return next((end for t in after if (end := dead_end(t, steps - 1))), None if after else text)


# `cute` has tf32 along k alone, and the help of that error is a step of its own.
CPP = ("gemm along n in tf32", "conv2d in tf32")
CASES = [(n, b) for n, b in product(PROGRAMS, ("auto", "cute", "cpp")) if b != "cute" or n not in CPP]


@pytest.mark.parametrize("schedule", ["cooperative", "pingpong", "auto"])
@pytest.mark.parametrize(("name", "backend"), CASES)
def test_every_help_reaches_a_program_that_passes(name, backend, schedule):
    written = f"schedule {schedule}" + ("" if backend == "auto" else f"  backend {backend}")
    refused = 0
    for m, n, k in TILES:
        text = PROGRAMS[name].replace("CLAUSES", f"tile {m}x{n}x{k}  {written}")
        refused += not check(text).ok
        end = dead_end(text)
        assert end is None, "\n".join([text, "leads to", end, *(d.render(end) for d in check(end).diagnostics)])
    assert refused > 10


@pytest.mark.parametrize(
    ("clauses", "help"),
    [
        ("tile 256x192x64  schedule pingpong", "schedule cooperative, or tile 128x192x64"),
        ("tile 256x208x64  schedule pingpong", "schedule cooperative, or tile 128x208x64"),
        ("tile 256x256x64  schedule pingpong", "tile 128x208x64"),
        ("tile 256x256x64  schedule cooperative", "tile 256x208x64"),
    ],
)
def test_the_tile_of_a_help_is_as_large_as_the_schedule_allows(clauses, help):
    diagnostics = check(PROGRAMS["gemm in f16"].replace("CLAUSES", clauses)).diagnostics
    assert {d.help for d in diagnostics} == {help}
