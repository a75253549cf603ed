"""Every file in wrong/ is rejected with exactly the codes and places that its first line states."""

import ast
import re
from pathlib import Path

import pytest

from dsl.check.program import check
from dsl.codes import CODES

HERE = Path(__file__).parent
WRONG = sorted((HERE / "wrong").glob("*.ucutlass"))
ROOM = HERE.parent.parent / "dsl"


def expected(text: str) -> list[str]:
    return text.split("\n", 1)[0].removeprefix("# ").split("; ")


@pytest.mark.parametrize("path", WRONG, ids=lambda p: p.stem)
def test_a_wrong_program_gets_its_codes_at_their_places(path):
    text = path.read_text()
    checked = check(text)
    assert not checked.ok
    assert [f"{d.code} {d.span.line}:{d.span.col}" for d in checked.diagnostics] == expected(text)
    for d in checked.diagnostics:
        shown = d.render(text)
        assert shown.startswith(d.code) and "^" in shown


def raised() -> set[str]:
    """Every code that stands as a string in the language's own modules (back ends have their own tests)."""
    codes = set()
    for path in (*ROOM.glob("*.py"), *ROOM.glob("check/**/*.py"), *ROOM.glob("rules/*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and re.fullmatch(r"E\d{3}", node.value):
                codes.add(node.value)
    return codes


def test_every_code_raised_has_a_page_and_every_page_a_code():
    assert raised() == set(CODES)


def test_every_code_has_a_wrong_program():
    shown = {e.split()[0] for path in WRONG for e in expected(path.read_text())}
    assert shown == set(CODES)
