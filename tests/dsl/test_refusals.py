"""A back end that cannot express a program says so with a code that has a page, as an error has."""

import ast
import functools
import re
from pathlib import Path

from dsl.codes import CODES, REFUSALS, page

ROOM = Path(__file__).parents[2] / "dsl"


@functools.cache
def raised() -> set[str]:
    codes = set()
    for path in ROOM.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                codes |= {node.value} if re.fullmatch(r"(cute|cpp)-[a-z0-9]+(-[a-z0-9]+)*", node.value) else set()
    return codes


def test_refusals_have_pages():
    """A code that a back end has just got may wait for its page; more than a few may not."""
    missing = sorted(code for code in raised() if page(code) is None)
    assert len(raised()) > 50 and len(missing) <= 3, missing


def test_a_page_reads_like_an_error_s():
    explanation = page("cute-k-major")
    assert (
        explanation.code == "cute-k-major"
        and "`cpp` transposes tf32" in explanation.why
        and "Rejected" not in str(explanation)
    )
    assert page("e204") is CODES["E204"]
    assert page("cute-nothing") is None and page("tf32") is None and page("gpu-tf32") is None


def test_no_page_is_of_a_code_that_nobody_raises():
    assert {topic for topic in REFUSALS if not {f"cute-{topic}", f"cpp-{topic}"} & raised()} == set()
