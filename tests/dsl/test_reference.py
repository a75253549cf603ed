"""The reference is the model's prompt: short, complete, and every program in it passes."""

import re
from pathlib import Path

import pytest

from dsl import legal
from dsl.check import GEMM_CLAUSES, LATER_OPS, OPS, check
from dsl.functions import NAMED, TABLE

ROOM = Path(__file__).parents[2] / "dsl"
TEXT = (ROOM / "reference.md").read_text()
EXAMPLES = sorted((ROOM / "examples").glob("*.ucutlass"))
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
    for name in NAMED:
        signature = ", ".join(a.name if a.default is None else f"{a.name}={a.default}" for a in TABLE[name].args)
        assert f"`{name}({signature})`" in TEXT
    for word in (*GEMM_CLAUSES, *OPS, *legal.SCHEDULES, *legal.BACKENDS):
        assert f"`{word}`" in TEXT or f"{word}(" in TEXT, word
    assert not any(f"{op}(" in TEXT for op in LATER_OPS)


def test_it_states_the_limits_that_the_checks_use():
    for number in (legal.MAX_ACCUMULATORS, legal.MAX_STAGES, legal.MAX_SPLITS, "232,448"):
        assert str(number) in TEXT


@pytest.mark.parametrize("text", PROGRAMS, ids=lambda t: t.split("(")[0])
def test_its_programs_pass(text):
    checked = check(text)
    assert checked.ok, [d.render(text) for d in checked.diagnostics]


def test_there_are_programs_to_check():
    assert len(PROGRAMS) == 2 and len(EXAMPLES) >= 8


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda p: p.stem)
def test_examples_pass_and_are_named_as_their_files(path):
    checked = check(path.read_text())
    assert checked.ok, [d.render(path.read_text()) for d in checked.diagnostics]
    assert checked.program.name == path.stem
