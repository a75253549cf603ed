"""Each error code has a whole program with that error alone, and the same program repaired, in dsl/mistakes."""

from pathlib import Path

import pytest

import dsl
from dsl.check.program import check
from dsl.codes import CODES, page
from dsl.compile import compile

FOLDER = Path(dsl.__file__).parent / "mistakes"


def test_the_folder_has_two_programs_for_each_code_and_nothing_else():
    names = {f"{code}-{which}.ucutlass" for code in CODES for which in ("wrong", "right")}
    assert {path.name for path in FOLDER.iterdir()} == names


@pytest.mark.parametrize("code", CODES)
def test_the_wrong_program_has_exactly_this_error(code):
    diagnostics = check(CODES[code].wrong).diagnostics
    assert [d.code for d in diagnostics] == [code], [d.render(CODES[code].wrong) for d in diagnostics]
    assert 1 <= diagnostics[0].span.line <= CODES[code].wrong.count("\n")


@pytest.mark.parametrize("code", CODES)
def test_the_repaired_program_passes_and_a_back_end_compiles_it(code):
    page = CODES[code]
    checked = check(page.right)
    assert checked.ok, [d.render(page.right) for d in checked.diagnostics]
    compiled = compile(checked.program)
    assert compiled.sources, compiled.refused


@pytest.mark.parametrize("code", CODES)
def test_the_repair_is_small(code):
    """Both programs are one story: the repair keeps the program's name and most of its words."""
    wrong, right = CODES[code].wrong.split(), CODES[code].right.split()
    names = [words[words.index("program") + 1].split("(")[0] for words in (wrong, right)]
    assert names[0] == names[1]
    assert len(set(wrong) & set(right)) >= len(set(right)) / 3


def test_explain_prints_both_programs_and_none_for_a_refusal():
    assert CODES["E103"].wrong in str(CODES["E103"]) and CODES["E103"].right in str(CODES["E103"])
    assert "A wrong program" not in str(page("cute-k-major")) and page("cute-k-major").wrong == ""
