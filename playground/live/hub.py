"""The watched sessions of this process, and one poller that sends their viewers what the logs have grown by.

The database is the only channel: the poller reads `last_seq` of all watched sessions in one query, every 100 ms while
logs grow and up to three times slower otherwise, and the new events of those that grew, once for all viewers. Each
viewer has its own cursor and window, so a slow one does not delay others.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from playground import engines
from playground.live import frames, watched
from playground.live.connections import Readers
from playground.live.viewers import BROKEN, UNKNOWN, Viewer
from playground.live.watched import Watched
from playground.models import Session

logger = logging.getLogger(__name__)

FAST, SLOW = 0.1, 0.3  # seconds between polls
STATE_EVERY = 1.0  # the queue and the engines change slowly
COUNT_EVERY = 1.0  # seconds between two numbers of viewers: a crowd that arrives at once is told a few times
HEARTBEAT = 15.0  # seconds of silence, at most
AT_ONCE = 50  # viewers that are served before the loop turns to others
poller = Readers(1, "poller")


class Growth(NamedTuple):
    """What a session's log has grown by. `message`: as in playground.engines, None if it was not asked for."""

    rows: list[bytes]
    ended: bool
    message: dict[str, Any] | None


class Hub:
    def __init__(self) -> None:
        self.watched: dict[str, Watched] = {}
        self._opening: dict[str, asyncio.Task[Watched | None]] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._loop: asyncio.AbstractEventLoop | None = None
        self._nudge: asyncio.Event = asyncio.Event()

    async def open(self, session_id: str) -> Watched | None:
        """The session in memory; a crowd that comes at once reads the database once. None: there is no such session."""
        loop = asyncio.get_running_loop()
        if self._loop is not loop:  # a new loop: only in tests, one per test
            self.watched, self._opening, self._tasks, self._loop, self._nudge = {}, {}, {}, loop, asyncio.Event()
        if (entry := self.watched.get(session_id)) is not None:
            return entry
        task = self._opening.get(session_id)
        if task is None:
            task = self._opening[session_id] = asyncio.ensure_future(look(session_id))
            task.add_done_callback(lambda done: self._opening.pop(session_id, None))
        entry = await asyncio.shield(task)
        return None if entry is None else self.watched.get(session_id, entry)

    def join(self, viewer: Viewer) -> None:
        """Send a viewer what it lacks, and everything that comes. The poller runs while a session is watched."""
        entry = self.watched.setdefault(viewer.entry.session_id, viewer.entry)
        entry.viewers.add(viewer)
        viewer.count(len(entry.viewers), frames.message({"viewers": len(entry.viewers)}))
        viewer.write(frames.message(entry.message))
        viewer.pump()
        for work in (self._poll, self._beat):
            if (task := self._tasks.get(work.__name__)) is None or task.done():
                self._tasks[work.__name__] = asyncio.ensure_future(work())
        self._nudge.set()

    def leave(self, viewer: Viewer) -> None:
        viewer.leave()
        entry = viewer.entry
        entry.viewers.discard(viewer)
        if not entry.viewers and self.watched.get(entry.session_id) is entry:
            del self.watched[entry.session_id]

    async def _poll(self) -> None:
        pause, states_due = FAST, 0.0
        while self.watched:
            live = {i: w.last_seq for i, w in self.watched.items() if not w.ended}
            if not live:  # nothing can change: sleep until somebody joins
                self._nudge.clear()
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self._nudge.wait(), 5)
                continue
            with_state = time.monotonic() >= states_due
            try:
                now = await read(live, with_state)
            except Exception:  # the database may be away for a moment; viewers keep their cursors
                logger.exception("the log could not be read; trying again")
                await asyncio.sleep(1)
                continue
            if with_state:
                states_due = time.monotonic() + STATE_EVERY
            grew = False
            for session_id, last in live.items():
                grew = await self._tell(session_id, last, now.get(session_id)) or grew
            pause = FAST if grew else min(SLOW, pause * 1.2)
            await asyncio.sleep(pause)

    async def _tell(self, session_id: str, last: int, growth: Growth | None) -> bool:
        """Pass on what was read of a session after event `last`. Returns False if there is nothing new."""
        entry = self.watched.get(session_id)
        if entry is None or entry.last_seq != last:  # everybody left while it was read, and somebody came
            return False
        if growth is None:
            entry.gone = entry.ended = True
            watched.pages.forget(session_id)
            await self._each(entry, Viewer.end, UNKNOWN, "this session was deleted")
            return True
        news = growth.message if growth.message not in (None, entry.message) else None
        if news is not None:
            entry.message = news
            await self._each(entry, Viewer.write, frames.message(news))
        if growth.rows or growth.ended:
            entry.grow(growth.rows, growth.ended)
            await self._each(entry, Viewer.pump)
        return bool(growth.rows or growth.ended or news)

    async def _beat(self) -> None:
        """Tell each viewer the number of viewers where it changed, and break each silence. Viewers of one session may
        know different numbers, because each was told at its arrival."""
        while self.watched:
            await asyncio.sleep(COUNT_EVERY)
            silent = time.monotonic() - HEARTBEAT + COUNT_EVERY
            ping = frames.message({"ping": round(time.time(), 3)})
            for entry in list(self.watched.values()):
                many = len(entry.viewers)
                await self._each(entry, Viewer.count, many, frames.message({"viewers": many}))
                await self._each(entry, Viewer.write_after_silence, ping, silent)

    @staticmethod
    async def _each(entry: Watched, act: Callable[..., None], *data: Any) -> None:
        """`act(viewer, *data)` for every viewer. A broken one is closed, so that its page reconnects."""
        for number, viewer in enumerate(list(entry.viewers), 1):
            try:
                act(viewer, *data)
            except Exception:
                logger.exception("a socket of session %s broke", entry.session_id)
                viewer.closed = True
                with contextlib.suppress(Exception):
                    viewer.outlet.close(BROKEN)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)


@watched.readers
def look(session_id: str) -> Watched | None:
    """A session with its newest events; None if there is none."""
    session = Session.objects.defer("spec", "summary", "provenance").filter(id=session_id).first()
    if session is None:
        return None
    rows = watched.newest(session_id, session.last_seq)
    ended = session.state == Session.ENDED
    return Watched(session_id, session.last_seq, ended, engines.state_message(session), rows)


@poller
def read(live: dict[str, int], with_state: bool) -> dict[str, Growth]:
    """What the sessions' logs have after the given events. A session that is missing was deleted."""
    growths, now = {}, engines.Situation()
    for s in Session.objects.filter(id__in=live).defer("spec", "summary", "provenance"):
        rows = watched.rows_after(s.id, live[s.id]) if s.last_seq > live[s.id] else []
        ended = s.state == Session.ENDED and live[s.id] + len(rows) >= s.last_seq
        message = engines.state_message(s, now) if with_state or ended else None
        growths[s.id] = Growth(rows, ended, message)
    return growths


hub = Hub()
