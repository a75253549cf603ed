"""A pasted Python text inside the sandbox: as Python reads it, and as code whose lines can be found again."""

from __future__ import annotations

import linecache
from types import CodeType

from engine.sandbox.channel import PASTED


def normal(text: str) -> str:
    """The text without what editors of other systems add: a byte order mark, and carriage returns at ends of lines."""
    return text.removeprefix("\ufeff").replace("\r\n", "\n")


def compiled(source: str) -> CodeType:
    """The code of a normal text, in the file PASTED, whose lines tracebacks and `inspect` find. Its annotations are its
    own: those of a file with `from __future__ import annotations` would all be texts. Raises what `compile` raises."""
    linecache.cache[PASTED] = (len(source), None, source.splitlines(keepends=True), PASTED)
    return compile(source, PASTED, "exec", dont_inherit=True)
