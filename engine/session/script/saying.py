"""The text of a running turn, collected in the turn's thread and logged in pieces while the turn runs.

A model sends its reply in hundreds of small parts. Viewers want to see it being written, and a log must stay small. So
the parts are joined to at most two events a second, and the pieces of one turn hold at most MOST characters. The
complete text is part of the turn's answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

from engine.session import events
from engine.session.journal import Journal
from engine.session.script.steps import Events

EVERY = 0.5  # seconds between two pieces
MOST = 64_000  # characters of all pieces of one turn
CUT = "\n[The rest appears when the turn ends.]"


def clean(text: str) -> str:
    """The text without what no database takes: NUL and surrogates without a partner become U+FFFD."""
    if "\0" in text:
        text = text.replace("\0", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


class Saying:
    """The text of one attempt at the turn at `path`. `add` may be called from any thread; `events` belongs to the
    thread of the generators."""

    def __init__(self, path: str, attempt: int, now: Callable[[], float] = time.monotonic):
        self.path, self.attempt, self._now = path, attempt, now
        self._lock = Lock()
        self._parts: list[str] = []
        self._room = MOST
        self._number = 0
        self._last = now() - EVERY

    def add(self, text: str) -> None:
        """Add what the model wrote next."""
        with self._lock:
            if self._room <= 0 or not text:
                return
            self._parts.append(text[: self._room])
            self._room -= len(text)
            if self._room <= 0:
                self._parts.append(CUT)

    def events(self, journal: Journal) -> Events:
        """Log what was added since the last piece, if a piece is due."""
        now = self._now()
        if not self._parts or now - self._last < EVERY:
            return
        with self._lock:
            text, self._parts = "".join(self._parts), []
        self._last = now
        self._number += 1
        yield from journal.emit(events.Said(self.path, self._number, clean(text), self.attempt))
