"""The watched rooms of this process, and one poller that wakes their viewers when a log has grown.

The database is the channel: the poller reads `last_seq` of all watched rooms in one query, every 100 ms while logs grow
and up to three times slower otherwise, or at once where this process wrote an event itself (`ring`), and wakes the
viewers of changed rooms. Each viewer then reads events from its own cursor, so a slow one does not delay others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

logger = logging.getLogger(__name__)

FAST, SLOW = 0.1, 0.3  # seconds between polls
COUNTED = 0.1  # seconds until a change of who watches is told: a crowd that comes at once is counted once


class Watcher(Protocol):
    def wake(self) -> None:
        """The room's log or message changed."""

    def viewers(self, count: int) -> None: ...


@dataclass
class Watched:
    """A room with at least one viewer here."""

    last_seq: int = 0
    ended: bool = False
    gone: bool = False
    message: dict[str, Any] = field(default_factory=dict)
    watchers: set[Watcher] = field(default_factory=set)
    counting: asyncio.TimerHandle | None = None


class Hub:
    """`read(names, with_state)`: {name: (last_seq, ended, message or None)} of those that exist, to be awaited.
    `state_every`: seconds between two reads with messages."""

    def __init__(self, read: Callable[..., Any], state_every: float) -> None:
        self._read_logs, self.state_every = read, state_every
        self.watched: dict[str, Watched] = {}
        self._task: asyncio.Task | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudge: asyncio.Event = asyncio.Event()
        self._rung: asyncio.Event = asyncio.Event()

    def join(self, name: str, watcher: Watcher, *, last_seq: int, ended: bool, message: dict) -> Watched:
        """Start to watch. The poller runs while a watched log can still change."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a new loop: only in tests, one per test
            self.watched, self._task, self._loop, self._nudge = {}, None, loop, asyncio.Event()
            self._rung = asyncio.Event()
        entry = self.watched.setdefault(name, Watched())
        entry.last_seq, entry.ended = max(entry.last_seq, last_seq), entry.ended or ended
        entry.message = message
        entry.watchers.add(watcher)
        watcher.viewers(len(entry.watchers))  # to itself before any event, to the others soon
        self._count(entry)
        if self._task is None or self._task.done():
            self._task = loop.create_task(self._poll())
        self._nudge.set()
        return entry

    def leave(self, name: str, watcher: Watcher) -> None:
        entry = self.watched.get(name)
        if entry is None:
            return
        entry.watchers.discard(watcher)
        if entry.watchers:
            self._count(entry)
        else:
            del self.watched[name]

    def ring(self, name: str) -> None:
        """A log grew in this process: read it now. From any thread."""
        if self._loop is not None and name in self.watched:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                self._loop.call_soon_threadsafe(self._rung.set)

    def _count(self, entry: Watched) -> None:
        """Tell everybody soon how many watch."""
        if entry.counting is None and self._loop is not None:
            entry.counting = self._loop.call_later(COUNTED, self._tell_count, entry)

    @staticmethod
    def _tell_count(entry: Watched) -> None:
        entry.counting = None
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
                now = await self._read_logs(live, with_state)
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
        for name in asked:
            entry = self.watched.get(name)
            if entry is None:
                continue
            if name not in now:
                entry.gone = entry.ended = True
            else:
                last, ended, message = now[name]
                if last == entry.last_seq and ended == entry.ended and message in (None, entry.message):
                    continue
                entry.last_seq, entry.ended = last, ended
                entry.message = entry.message if message is None else message
            grew = True
            for watcher in list(entry.watchers):
                watcher.wake()
        return grew


__all__ = ["Hub", "Watched", "Watcher"]
