"""The watched sessions of this process, and one poller that wakes their viewers when a log has grown.

The database is the only channel: the poller reads `last_seq` of all watched sessions in one query, every 100 ms while
logs grow and up to three times slower otherwise, and wakes the viewers of changed sessions. Each viewer then reads
events from its own cursor, so a slow one does not delay others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from playground import engines
from playground.live.connections import Readers
from playground.models import Session

logger = logging.getLogger(__name__)

FAST, SLOW = 0.1, 0.3  # seconds between polls
STATE_EVERY = 1.0  # the queue and the engines change slowly
poller = Readers(1, "poller")


class Watcher(Protocol):
    def wake(self) -> None:
        """The session's log or state changed."""

    def viewers(self, count: int) -> None: ...


@dataclass
class Watched:
    """A session with at least one viewer here. `state_message` as in playground.engines."""

    last_seq: int = 0
    ended: bool = False
    gone: bool = False
    message: dict[str, Any] = field(default_factory=dict)
    watchers: set[Watcher] = field(default_factory=set)


class Hub:
    """`read(names, with_state)`: {name: (last_seq, ended, message or None)} of those that exist, to be awaited; None:
    of sessions. `state_every`: seconds between two reads with messages."""

    def __init__(self, read: Callable[..., Any] | None = None, state_every: float = STATE_EVERY) -> None:
        self._read_logs, self.state_every = read, state_every
        self.watched: dict[str, Watched] = {}
        self._task: asyncio.Task | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudge: asyncio.Event = asyncio.Event()
        self._rung: asyncio.Event = asyncio.Event()

    def join(self, session_id: str, watcher: Watcher, *, last_seq: int, ended: bool, message: dict) -> Watched:
        """Start to watch. The poller runs while a watched session can still change."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a new loop: only in tests, one per test
            self.watched, self._task, self._loop, self._nudge = {}, None, loop, asyncio.Event()
            self._rung = asyncio.Event()
        entry = self.watched.setdefault(session_id, Watched())
        entry.last_seq, entry.ended = max(entry.last_seq, last_seq), entry.ended or ended
        entry.message = message
        entry.watchers.add(watcher)
        self._count(entry)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._poll())
        self._nudge.set()
        return entry

    def leave(self, session_id: str, watcher: Watcher) -> None:
        entry = self.watched.get(session_id)
        if entry is None:
            return
        entry.watchers.discard(watcher)
        if entry.watchers:
            self._count(entry)
        else:
            del self.watched[session_id]

    def ring(self, name: str) -> None:
        """A log grew in this process: read it now. From any thread."""
        if self._loop is not None and name in self.watched:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._rung.set)

    @staticmethod
    def _count(entry: Watched) -> None:
        for watcher in entry.watchers:
            watcher.viewers(len(entry.watchers))

    async def _poll(self) -> None:
        pause, states_due = FAST, 0.0
        while self.watched:
            live = [i for i, w in self.watched.items() if not w.ended]
            if not live:  # nothing can change: sleep until somebody joins
                self._nudge.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._nudge.wait(), 5)
                continue
            with_state = time.monotonic() >= states_due
            self._rung.clear()
            try:
                now = await (self._read_logs or _read)(live, with_state)
            except Exception:  # the database may be away for a moment; viewers keep their cursors
                logger.exception("the log could not be read; trying again")
                await asyncio.sleep(1)
                continue
            if with_state:
                states_due = time.monotonic() + self.state_every
            pause = FAST if self._tell(live, now) else min(SLOW, pause * 1.2)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._rung.wait(), pause)

    def _tell(self, asked: list[str], now: dict[str, tuple[int, bool, dict | None]]) -> bool:
        grew = False
        for session_id in asked:
            entry = self.watched.get(session_id)
            if entry is None:
                continue
            if session_id not in now:
                entry.gone = entry.ended = True
            else:
                last, ended, message = now[session_id]
                if last == entry.last_seq and ended == entry.ended and message in (None, entry.message):
                    continue
                entry.last_seq, entry.ended = last, ended
                entry.message = entry.message if message is None else message
            grew = True
            for watcher in list(entry.watchers):
                watcher.wake()
        return grew


@poller
def _read(ids: list[str], with_state: bool) -> dict[str, tuple[int, bool, dict | None]]:
    states, now = {}, engines.Situation()
    for s in Session.objects.filter(id__in=ids).defer("spec", "summary", "provenance"):
        message = engines.state_message(s, now) if with_state or s.state == Session.ENDED else None
        states[s.id] = (s.last_seq, s.state == Session.ENDED, message)
    return states


hub = Hub()
