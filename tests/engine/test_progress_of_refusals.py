"""A refusal on the command line says at which line of the text."""

import pytest

from engine.progress import line
from engine.session import events


@pytest.mark.parametrize(
    ("at", "reason", "printed"),
    [
        (8, "forward returns an object.", "refused: line 8: forward returns an object."),
        (8, "Line 8, `y = f(x)`, reads a value.", "refused: Line 8, `y = f(x)`, reads a value."),
        (None, "There is no module.", "refused: There is no module."),
    ],
)
def test_its_line(at, reason, printed):
    assert line(events.SessionEnded("refused", reason, {}, 0, 3.0, "some_code", line=at)).startswith(printed)
