"""Diagnostics of a rejected program: a stable code, the place with a caret, the reason, and the nearest fix."""

from __future__ import annotations

import difflib
import functools
from collections.abc import Iterable
from dataclasses import dataclass

from dsl.fixes import Fix, Help
from dsl.ir import NOWHERE, Span

# Of a longer source line only a window around the caret is shown, since a whole file may be one line.
WIDTH = 110

CONSEQUENCES = ("E402", "E403")  # unused names, which another mistake often causes: they are named last


@dataclass(frozen=True)
class Diagnostic:
    """One error in a program. `code` is stable (see dsl.codes); `help` describes the nearest program that passes.

    `fixes`: the edits that the help names, as data for an editor, the nearest first; empty if it names none.
    """

    code: str
    message: str
    span: Span = NOWHERE
    notes: tuple[str, ...] = ()
    help: str | None = None
    fixes: tuple[Fix, ...] = ()

    @classmethod
    def of(
        cls, code: str, message: str, span: Span, help: Help | str | None = None, notes: tuple[str, ...] = ()
    ) -> Diagnostic:
        """The diagnostic with the sentence of a help and its fixes. A help without an edit may be a plain sentence."""
        if isinstance(help, Help):
            return cls(code, message, span, notes, help.text, help.fixes)
        return cls(code, message, span, notes, help)

    @property
    def mistake(self) -> tuple[str, str]:
        """What is wrong, without the place: equal for the same mistake in an edited text."""
        return self.code, self.message

    def render(self, source: str) -> str:
        """The message as the compiler prints it; `source` is the text that the span refers to.

        E204 tile needs 279,552 bytes of shared memory; sm_90a gives a block 232,448
          6 |     tile     256x256x64
            |              ^^^^^^^^^^
            = mainloop 4 stages x 64 KiB + epilogue 16 KiB
            = help: ...
        """
        out = [f"{self.code} {self.message}"]
        lines = _lines(source)
        width = max(3, len(str(self.span.line)))
        if 1 <= self.span.line <= len(lines):
            text, caret = _excerpt(lines[self.span.line - 1].rstrip("\r"), self.span)
            out += [f"{self.span.line:>{width}} | {text}".rstrip(), f"{'':>{width}} | {caret}"]
        out += [f"{'':>{width}} = {note}" for note in self.notes]
        if self.help:
            out.append(f"{'':>{width}} = help: {self.help}")
        return "\n".join(out)

    def to_json(self) -> dict:
        """Plain data for a page or a log. Lines and columns are 1-based, the end exclusive, or 0 without a place."""
        s = self.span
        return {
            "code": self.code,
            "message": self.message,
            "line": s.line,
            "col": s.col,
            "end_line": s.end_line,
            "end_col": s.end_col,
            "notes": list(self.notes),
            "help": self.help,
        }


class ProgramError(Exception):
    """The text is not a program; `diagnostics` holds the reasons."""

    def __init__(self, diagnostics: Iterable[Diagnostic]):
        self.diagnostics = tuple(diagnostics)
        super().__init__("; ".join(f"{d.code} {d.message}" for d in self.diagnostics))


@functools.lru_cache(maxsize=2)
def _lines(source: str) -> list[str]:
    """The lines of a text, split once for all of its diagnostics: there may be hundreds. Callers only read the list."""
    return source.split("\n")


def _excerpt(line: str, span: Span) -> tuple[str, str]:
    """The line (or a window of it) and the carets under the span. Both keep their tabs, so that they align."""
    start = max(0, min(span.col - 1, len(line)))
    end = span.end_col - 1 if span.end_line == span.line else len(line)
    length = max(1, min(end, len(line)) - start)
    cut = 0
    if len(line) > WIDTH:
        cut = max(0, start - WIDTH // 2)
        line = ("…" if cut else "") + line[cut : cut + WIDTH] + ("…" if cut + WIDTH < len(line) else "")
        start = start - cut + (1 if cut else 0)
        length = max(1, min(length, WIDTH))
    line = "".join(c if c.isprintable() or c == "\t" else "�" for c in line)
    return line, "".join("\t" if c == "\t" else " " for c in line[:start]) + "^" * length


MAX_LISTED = 24  # names in scope that a note shows


def closest(word: str, known: Iterable[str]) -> str | None:
    """The known name nearest to a misspelt word; None if none is near."""
    matches = difflib.get_close_matches(word[:64], list(known), n=1, cutoff=0.6)
    return matches[0] if matches else None


def listing(words: Iterable[object], most: int | None = None) -> str:
    """`a, b and c`; more than `most` words are shortened: `acc, 94 more, y and z`."""
    words = [str(w) for w in words]
    if most is not None and len(words) > most:
        words = [words[0], f"{len(words) - most} more", *words[1 - most :]]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else "none"
