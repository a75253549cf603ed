"""What the back end writes, whole. Read the difference, then `UPDATE_GOLDEN=1 pytest` this file to accept it."""

import os
from pathlib import Path

import pytest

from dsl.lower.cpp import lower

from . import programs

GOLDEN = Path(__file__).parent / "golden"
CASES = {
    "linear_leaky": programs.LINEAR_LEAKY, "cast_bmm": programs.CAST_ATTENTION, "split_k": programs.SPLIT_K,
    "conv": programs.CONV, "rowmajor": programs.ROWMAJOR, "guarded": programs.GUARDED,
    "ampere": programs.AMPERE, "blackwell": programs.BLACKWELL,
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_generated_code_is_as_reviewed(name):
    source = lower(programs.program(CASES[name]))
    for kind, text in (("cu", source.text), ("binding.py.txt", source.binding)):
        path = GOLDEN / f"{name}.{kind}"
        if os.environ.get("UPDATE_GOLDEN"):
            GOLDEN.mkdir(exist_ok=True)
            path.write_text(text)
        assert text == path.read_text()
