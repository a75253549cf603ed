"""The owners' commands to the sessions of one engine, read from the database for all of them at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock
from typing import Any

from engine.session import events
from playground.models import Command

EVERY = 0.2  # seconds between two reads of the database, however often and by how many sessions it is asked


class Leaving(BaseException):
    """This session must be released: the engine ends, or another one has it. Not an Exception, so that nothing catches
    it."""


class Mailbox:
    """Commands that no event records yet, by session. From several threads."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._read_at = 0.0
        self._sessions: set[str] = set()
        self._waiting: dict[str, list[tuple[int, str, dict[str, Any]]]] = {}

    def open(self, session_id: str) -> None:
        with self._lock:
            self._sessions.add(session_id)
            self._read_at = 0.0

    def close(self, session_id: str) -> None:
        with self._lock:
            self._sessions.discard(session_id)

    def waiting(self, session_id: str) -> list[tuple[int, str, dict[str, Any]]]:
        """[(id, kind, data)] in order, at most EVERY seconds old."""
        with self._lock:
            if time.monotonic() - self._read_at >= EVERY:
                self._waiting = {}
                for c in Command.objects.filter(session_id__in=self._sessions, handled=None).order_by("id"):
                    self._waiting.setdefault(c.session_id, []).append((c.id, c.kind, c.data))
                self._read_at = time.monotonic()
            return self._waiting.get(session_id, [])


class Control:
    """The owner's commands to a running session, each delivered once, and again after a crash without a trace of it.

    A command is marked handled in the same transaction as the event that records it, so that no crash can lose it.
    `patience`: seconds without a command and without an event (`active`) after which the session is told to stop,
    because the agent that it waits for has gone; None: it waits for nobody. `rest` and `admitted`: see
    engine.session.owner.Resting.
    """

    def __init__(
        self, session_id: str, mailbox: Mailbox, leaving: Callable[[], bool], patience: float | None = None,
        rest: Callable[[], None] = lambda: None, admitted: Callable[[], bool] = lambda: True,
    ):  # fmt: skip
        self.rest, self.admitted = rest, admitted
        self.session_id, self.mailbox, self.leaving, self.patience = session_id, mailbox, leaving, patience
        self._active = time.monotonic()
        self._open: list[tuple[int, str]] = []  # (id, kind) of the words that no event has said yet
        self._delivered: set[int] = set()

    def __call__(self) -> list[tuple[str, dict[str, Any]]]:
        """[(kind, data)] since the last call. Raises Leaving when the session must be released."""
        if self.leaving():
            raise Leaving
        words = [word for word in self.mailbox.waiting(self.session_id) if word[0] not in self._delivered]
        self._open += [(i, kind) for i, kind, _ in words]
        self._delivered |= {i for i, _, _ in words}
        if words:
            self.active()
        if self.patience is not None and time.monotonic() - self._active > self.patience:
            self.active()
            return [("stop", {"idle_minutes": round(self.patience / 60)})]
        return [(kind, data) for _, kind, data in words]

    def active(self) -> None:
        """Something happens in the session."""
        self._active = time.monotonic()

    def handled(self, event: events.Event) -> list[int]:
        """The ids of the words that this event says were heard: one, with those before it that the engine passed over.
        The other words of the same look stay open until their own events."""
        kinds = [kind for _, kind in self._open]
        if not isinstance(event, events.Controlled) or event.action not in kinds:
            return []
        upto = kinds.index(event.action) + 1
        ids, self._open = [i for i, _ in self._open[:upto]], self._open[upto:]
        return ids
