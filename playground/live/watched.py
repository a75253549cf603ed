"""A watched session in memory: its newest events, each encoded once for all viewers, and who watches.

The hub's poller appends what the log has grown by. Events before the newest ones are read in pages of 64, once for
all viewers who need them, and the last used pages stay in memory (PAGES_BYTES of them in this process).
"""

from __future__ import annotations

import asyncio
import json
from collections import OrderedDict
from typing import Any, NamedTuple

from playground.live import frames, log
from playground.live.connections import Readers

PAGE = 64  # events
PAGES_BYTES = 32 << 20
RECENT_EVENTS, RECENT_BYTES = 512, 2 << 20  # of a session, in memory while it is watched
BATCH_EVENTS = 64
BATCH_BYTES = 1 << 18  # a message over 1 MiB is too large for some clients; an event has at most log.MAX_EVENT_BYTES
MOST_BYTES = 4 << 20  # read at once
readers = Readers(2, "reader")


class Batch(NamedTuple):
    """One message with events: its frame, the last of its events, their number and bytes. `complete`: the log ends
    with it."""

    frame: bytes
    upto: int
    count: int
    size: int
    complete: bool


class Watched:
    """A session with at least one viewer here. `message` as in playground.engines.state_message; `last_seq`: the last
    event in memory; `ended`: the log ends there; `gone`: the session was deleted."""

    def __init__(
        self, session_id: str, last_seq: int = 0, ended: bool = False, message: dict[str, Any] | None = None,
        recent: list[bytes] | None = None,
    ):  # fmt: skip
        self.session_id, self.last_seq, self.ended, self.gone = session_id, last_seq, ended, False
        self.message = message or {}
        self.viewers: set[Any] = set()  # playground.live.viewers.Viewer
        self._recent = recent or []
        self._bytes = sum(map(len, self._recent))
        self._batches: dict[int, Batch] = {}  # whole ones, by the event that they come after

    def grow(self, rows: list[bytes], ended: bool) -> None:
        """Append the next events. `ended`: the log ends with them."""
        self._recent += rows
        self._bytes += sum(map(len, rows))
        self.last_seq += len(rows)
        self.ended = ended
        self._batches.clear()
        self._trim()

    def _trim(self) -> None:
        drop = max(0, len(self._recent) - RECENT_EVENTS)
        spare = self._bytes - sum(map(len, self._recent[:drop]))
        while spare > RECENT_BYTES and drop < len(self._recent) - 1:
            spare -= len(self._recent[drop])
            drop += 1
        if drop:
            del self._recent[:drop]
            self._bytes = spare

    def batch(self, cursor: int, events: int, size: int) -> Batch | None:
        """The next message after event `cursor`, of at most so many events and bytes; None if they must be read first
        (`read`). Viewers at the same event share it."""
        whole = self._batches.get(cursor)
        if whole is None:
            rows = self._after(cursor)
            if rows is None:
                return None
            if len(self._batches) >= 256:
                self._batches.clear()
            whole = self._batches[cursor] = self._build(cursor, rows, BATCH_EVENTS, log.MAX_EVENT_BYTES * 2)
        if whole.count <= events and whole.size <= size:
            return whole
        rows = self._after(cursor)
        return None if rows is None else self._build(cursor, rows, events, size)

    def _after(self, cursor: int) -> list[bytes] | None:
        """Up to a page of events after `cursor`, as far as they lie in memory; None if they do not."""
        start = cursor - (self.last_seq - len(self._recent))
        if start >= 0:
            return self._recent[start : start + BATCH_EVENTS]
        page = pages.get(self.session_id, cursor // PAGE)
        return None if page is None else page[cursor % PAGE :]

    def _build(self, cursor: int, rows: list[bytes], events: int, size: int) -> Batch:
        count = total = 0
        for row in rows[: max(0, events)]:
            if total + len(row) > (size if count == 0 else min(size, BATCH_BYTES)):
                break
            count, total = count + 1, total + len(row)
        upto = cursor + count
        complete = self.ended and upto >= self.last_seq
        body = b'{"events":[%b],"last":%d,"ended":%b}'
        payload = body % (b",".join(rows[:count]), self.last_seq, b"true" if complete else b"false")
        return Batch(frames.frame(payload), upto, count, total, complete)

    async def read(self, cursor: int) -> bool:
        """Read the page after event `cursor` into memory, once for all who wait for it. False: it was deleted."""
        return await pages.load(self.session_id, cursor // PAGE)


class Pages:
    """Pages of logs, the last used ones of this process. A page is read when every event of it is in the log, so it
    never changes."""

    def __init__(self) -> None:
        self._pages: OrderedDict[tuple[str, int], list[bytes]] = OrderedDict()
        self._loading: dict[tuple[str, int], asyncio.Task[list[bytes]]] = {}
        self._bytes = 0

    def get(self, session_id: str, number: int) -> list[bytes] | None:
        page = self._pages.get((session_id, number))
        if page is not None:
            self._pages.move_to_end((session_id, number))
        return page

    async def load(self, session_id: str, number: int) -> bool:
        key = session_id, number
        if key in self._pages:
            return True
        task = self._loading.get(key)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = self._loading[key] = asyncio.ensure_future(read_page(session_id, number * PAGE))
            task.add_done_callback(lambda done: self._loading.pop(key, None))
        page = await asyncio.shield(task)
        if key not in self._pages and page:
            self._pages[key] = page
            self._bytes += sum(map(len, page))
            while self._bytes > PAGES_BYTES and len(self._pages) > 1:
                self._bytes -= sum(map(len, self._pages.popitem(last=False)[1]))
        return bool(page)

    def forget(self, session_id: str) -> None:
        """Drop the pages of a session that was deleted."""
        for key in [k for k in self._pages if k[0] == session_id]:
            self._bytes -= sum(map(len, self._pages.pop(key)))


def encode(row: dict[str, Any]) -> bytes:
    """An event in the form for viewers."""
    return json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode()


def rows_after(session_id: str, seq: int, limit: int = RECENT_EVENTS) -> list[bytes]:
    """The next encoded events after `seq`, MOST_BYTES of them or little more."""
    rows: list[bytes] = []
    total = 0
    for row in log.stream(session_id, seq, limit):
        rows.append(encode(row))
        total += len(rows[-1])
        if total >= MOST_BYTES:
            break
    return rows


@readers
def read_page(session_id: str, after: int) -> list[bytes]:
    """The encoded events of the page after event `after`."""
    return [encode(row) for row in log.stream(session_id, after, PAGE)]


def newest(session_id: str, last: int) -> list[bytes]:
    """The encoded events up to `last`, as many as RECENT_EVENTS and RECENT_BYTES allow."""
    rows: list[bytes] = []
    total, upto = 0, last
    while upto > max(0, last - RECENT_EVENTS):
        chunk = [encode(row) for row in log.stream(session_id, max(0, upto - PAGE), min(PAGE, upto))]
        size = sum(map(len, chunk))
        if rows and total + size > RECENT_BYTES:
            break
        rows, total, upto = chunk + rows, total + size, max(0, upto - PAGE)
    return rows


pages = Pages()
