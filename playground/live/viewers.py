"""One viewer of a watched session: its cursor in the log, and the window of what it has not acknowledged."""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque

from playground.live import frames
from playground.live.frames import Outlet
from playground.live.watched import Watched

logger = logging.getLogger(__name__)

WINDOW_EVENTS = 256
WINDOW_BYTES = 1 << 20
HELD_BYTES = 1 << 18  # that may wait for a client to read; who acknowledges without reading gets no more than a batch
MAX_MESSAGE = 1024  # characters; an acknowledgement has about 20
MESSAGES = {"ack", "pong"}  # of a client
MALFORMED, UNKNOWN, GUESSING, BROKEN = 4400, 4404, 4429, 1011


def acknowledgement(text: str | None) -> tuple[int | None, str | None]:
    """(the event that a client's message acknowledges, or None; the message's fault, or None). An event beyond what was
    sent is valid, because a page may have fetched the rest over HTTP."""
    if text is None:
        return None, "messages are JSON texts, not binary"
    if len(text) > MAX_MESSAGE:
        return None, f"a message has at most {MAX_MESSAGE} characters"
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None, "not JSON"
    if not isinstance(message, dict) or not set(message) <= MESSAGES:
        return None, 'only {"ack": SEQ} and {"pong": ...} are understood'
    seq = message.get("ack")
    if "ack" in message and (type(seq) is not int or seq < 0):
        return None, "ack takes the seq of an event"
    return seq, None


class Viewer:
    """`cursor`: the last event that was sent. Everything here runs on the event loop and waits for nobody, so that a
    slow viewer delays no other."""

    def __init__(self, entry: Watched, outlet: Outlet, after: int):
        self.entry, self.outlet = entry, outlet
        self.cursor = self.acknowledged = min(after, entry.last_seq)
        self.unread: deque[tuple[int, int]] = deque()  # (last event, bytes) of messages without acknowledgement
        self.unread_bytes = 0
        self.complete = self.closed = False
        self.slow = False  # more waits for it than it reads
        self.known = 0  # the number of viewers that this one was told last
        self.sent_at = 0.0  # by the monotonic clock
        self._reading: asyncio.Task[None] | None = None

    def write(self, built: bytes) -> None:
        if not self.closed:
            self.sent_at = time.monotonic()
            self.outlet.write(built)

    def count(self, many: int, built: bytes) -> None:
        """Send the frame `built`, which says that `many` watch, unless this viewer knows."""
        if self.known != many:
            self.known = many
            self.write(built)

    def write_after_silence(self, built: bytes, since: float) -> None:
        """`since`: of the monotonic clock. Called each second, so who was held for not reading goes on from here."""
        if self.slow:
            self.pump()
        if self.sent_at < since:
            self.write(built)

    def pump(self) -> None:
        """Send all events that the window and the client's reading allow. Events that are not in memory are read first,
        in a task."""
        entry = self.entry
        while not (self.complete or self.closed or self._reading):
            room = WINDOW_EVENTS - (self.cursor - self.acknowledged)
            if not entry.ended if self.cursor >= entry.last_seq else not room:
                return
            self.slow = self.outlet.unsent > HELD_BYTES
            if self.slow:
                return
            batch = entry.batch(self.cursor, room, WINDOW_BYTES - self.unread_bytes)
            if batch is None:
                self._reading = asyncio.ensure_future(self._read())
                return
            if not batch.count and not batch.complete:
                return
            if batch.count:
                self.unread.append((batch.upto, batch.size))
                self.unread_bytes += batch.size
                self.cursor = batch.upto
            self.complete = batch.complete
            self.write(batch.frame)

    async def _read(self) -> None:
        try:
            exists = await self.entry.read(self.cursor)
        except Exception:
            logger.exception("the log of session %s could not be read", self.entry.session_id)
            self.end(BROKEN, "the log could not be read; connect again")
            return
        finally:
            self._reading = None
        if exists:
            self.pump()
        else:
            self.end(UNKNOWN, "this session was deleted")

    def take(self, text: str | None) -> str | None:
        """Apply one message of the client. Returns its fault, or None."""
        seq, fault = acknowledgement(text)
        if seq is not None:
            self.acknowledged = max(self.acknowledged, min(seq, self.cursor))
            while self.unread and self.unread[0][0] <= seq:
                self.unread_bytes -= self.unread.popleft()[1]
            self.pump()
        return fault

    def end(self, code: int, reason: str) -> None:
        """Tell why, and close: daphne sends no reason with its codes."""
        self.write(frames.message({"error": reason}))
        self.closed = True
        self.outlet.close(code)

    def leave(self) -> None:
        self.closed = True
        if self._reading is not None:
            self._reading.cancel()
