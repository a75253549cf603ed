"""A socket that sends one log after a cursor, with acknowledgements, through a consumer of channels.

A room's viewers do not all read the same (a seat reads what is its own), so its events are encoded for each of them. A
session's socket (playground.live.sockets) encodes each event once for all its viewers. The messages are alike.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections import deque
from typing import Any

from channels.generic.websocket import AsyncWebsocketConsumer

from playground.live import frames
from playground.live.frames import Outlet
from playground.live.viewers import (
    BROKEN,
    HELD_BYTES,
    MALFORMED,
    UNKNOWN,
    WINDOW_BYTES,
    WINDOW_EVENTS,
    acknowledgement,
)
from playground.live.watched import BATCH_BYTES, BATCH_EVENTS
from playground.rooms.socket.hub import Hub

logger = logging.getLogger(__name__)

HEARTBEAT = 15.0  # seconds
LOOK = 1.0  # seconds between two looks at a client that does not read


class LogConsumer(AsyncWebsocketConsumer):
    """Sends one log after a cursor. A kind of log says how its events are read (`events`), and calls `follow`.

    `hub`: of that kind of log; `GONE`: the words for a log that was deleted."""

    hub: Hub
    GONE = "this log was deleted"
    task: asyncio.Task | None = None
    name = ""
    over = False  # the server closed it: nothing more is taken or sent

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.outlet = Outlet(send)
        try:
            await super().__call__(scope, receive, send)
        finally:  # also after an error of ours: who stays in the hub would be shown as present for ever
            await self.leave()

    async def events(self, after: int, limit: int) -> list[tuple[int, str | None]]:
        """At most `limit` (seq, JSON text) after `after`; None instead of a text that this viewer may not read."""
        raise NotImplementedError

    def presence(self) -> dict:
        """The message about who watches."""
        return {"viewers": self.count}

    def cursor_of(self, raw: str) -> int | None:
        """The number of an event; None if it is not one."""
        return int(raw) if raw.isascii() and raw.isdecimal() and len(raw) < 10 else None

    def follow(self, name: str, after: int, *, last: int, ended: bool, message: dict) -> None:
        """Send the log `name` from now on."""
        self.name = name
        self.cursor = min(after, last)
        self.unread: deque[tuple[int, int]] = deque()  # (seq, bytes) sent and not acknowledged
        self.unread_bytes = 0
        self.bell = asyncio.Event()
        self.bell.set()
        self.count: int | None = None
        self.message: dict | None = None
        self.entry = self.hub.join(name, self, last_seq=last, ended=ended, message=message)
        self.task = asyncio.create_task(self._guarded())

    async def leave(self) -> None:
        """Stop to watch. May be called again."""
        if self.task is not None:
            self.hub.leave(self.name, self)
            self.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await self.task

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.task is not None and not self.over and (reason := self._take(text_data)):
            self.refuse(MALFORMED, reason)

    def write(self, text: str) -> None:
        """Send a text; nothing to a client that is gone, or whose socket the server closed."""
        if not self.over:
            self.outlet.write(frames.frame(text.encode()))

    def refuse(self, code: int, reason: str) -> None:
        """Tell why, and close."""
        self.write(json.dumps({"error": reason}))
        self.over = True
        self.outlet.close(code)

    def _take(self, text: str | None) -> str | None:
        """Apply one message of the client. Returns its fault, or None."""
        seq, fault = acknowledgement(text)
        if seq is not None:
            while self.unread and self.unread[0][0] <= seq:
                self.unread_bytes -= self.unread.popleft()[1]
            self.bell.set()
        return fault

    # The hub calls these. Both only set a flag and wake the task, so that a slow socket cannot delay another.
    def wake(self) -> None:
        self.bell.set()

    def viewers(self, count: int) -> None:
        self.count = count
        self.bell.set()

    async def _guarded(self) -> None:
        """Log the error of a broken sender and close, so that the page reconnects instead of waiting."""
        try:
            await self._send_all()
        except Exception:
            logger.exception("the socket of %s broke", self.name)
            self.over = True
            with contextlib.suppress(Exception):
                self.outlet.close(BROKEN)

    async def _send_all(self) -> None:
        """This task sends everything on this socket: batches, states, presence, pings."""
        told_count, complete, ping_at = None, False, time.monotonic() + HEARTBEAT
        while not self.over:
            pause = LOOK if self._held() else ping_at - time.monotonic()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self.bell.wait(), max(0.0, pause))
            self.bell.clear()
            if time.monotonic() >= ping_at:
                ping_at = time.monotonic() + HEARTBEAT
                self.write(json.dumps({"ping": round(time.time(), 3)}))
            if self.entry.gone:
                self.refuse(UNKNOWN, self.GONE)
                return
            if self.count != told_count:
                told_count = self.count
                self.write(json.dumps(self.presence()))
            if self.entry.message != self.message:
                self.message = self.entry.message
                self.send_message(self.message)
            more = not complete
            while more and (self.cursor < self.entry.last_seq or self.entry.ended):
                more, complete = await self._send_batch()

    async def _send_batch(self) -> tuple[bool, bool]:
        """Send what fits into the window. Returns (more may be ready to send, the log is complete there)."""
        room = 0 if self._held() else min(BATCH_EVENTS, WINDOW_EVENTS - len(self.unread))
        rows, batch, before = [], 0, self.cursor
        for seq, text in await self.events(self.cursor, room) if room else []:
            if text is None:
                self.cursor = seq
                continue
            size = len(text.encode())
            if self.unread_bytes + size > WINDOW_BYTES or (rows and batch + size > BATCH_BYTES):
                break
            rows.append(text)
            batch += size
            self.unread.append((seq, size))
            self.unread_bytes += size
            self.cursor = seq
        last = max(self.entry.last_seq, self.cursor)
        complete = self.entry.ended and self.cursor >= last
        if rows or complete:
            self.write(f'{{"events":[{",".join(rows)}],"last":{last},"ended":{json.dumps(complete)}}}')
        return self.cursor > before and not complete, complete

    def _held(self) -> bool:
        """Return True for a client that acknowledges, or waits, without reading: it gets no more than a batch."""
        return self.outlet.unsent > HELD_BYTES

    def send_message(self, message: dict) -> None:
        """Send the log's own message."""
        self.write(json.dumps(message))


__all__ = ["LogConsumer"]
