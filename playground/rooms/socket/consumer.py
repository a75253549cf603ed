"""A room's socket, /ws/w/CODE: its log after a cursor, as much of it as the teacher or a seat may read.

Client to server, first: {"token": "...", "after": SEQ}. The token is the teacher's or a seat's; it is in no address, so
that no log holds it. Then {"ack": SEQ} and {"pong": ...}, as on a session's socket (playground.live.sockets).

Server to client, first: {"seat": N}, whose token it is, null for the teacher's. Then {"events": [{seq, kind, t, seat,
data}...], "last": N, "ended": false}, {"ping": ...}, {"error": ...}.
A seat also gets {"session": ...} when its newest session changes.
The teacher also gets {"online": [seat...]} and {"sessions": {seat: {session, state, trials, gap, ms, speedup, kind}}}.

Close codes: 4400 an invalid message, 4403 the token is not valid in this room (any more), 4404 no such room (or it was
deleted), 4429 the address guesses or the token has too many sockets, 1011 our error: reconnect.
"""

from __future__ import annotations

import asyncio
import json
from typing import Any

from playground.access import limits
from playground.live.connections import Readers
from playground.live.viewers import GUESSING, MALFORMED, MAX_MESSAGE, UNKNOWN
from playground.models import Room, RoomEvent
from playground.rooms import log, names, rules, runs
from playground.rooms.log import Reader
from playground.rooms.socket.following import LogConsumer
from playground.rooms.socket.hub import Hub

REFUSED = 4403
HELLO_WITHIN = 30.0  # seconds for the first message
# Sockets of one seat and of the teacher at a time: each event of the room wakes all of them.
SEAT_SOCKETS, TEACHER_SOCKETS = 6, 16
readers = Readers(4, "room reader")
poller = Readers(1, "room poller")


@poller
def _read(codes: list[str], with_state: bool) -> dict[str, tuple[int, bool, dict | None]]:
    rows = dict(Room.objects.filter(code__in=codes).values_list("code", "last_seq"))
    sessions = runs.gaps(list(rows)) if with_state else {}
    return {code: (last, False, {"sessions": sessions[code]} if with_state else None) for code, last in rows.items()}


hub = Hub(_read, state_every=0.2)
log.bells.append(hub.ring)


class Tails:
    """The newest events of the watched rooms: an event is read once, and not by each of sixty seats."""

    def __init__(self) -> None:
        self._rows: dict[str, list[RoomEvent]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def read(self, code: str, after: int, limit: int, last: int) -> list[RoomEvent]:
        """At most `limit` events after `after`; `last`: the newest one."""
        if after >= last:
            return []
        async with self._locks.setdefault(code, asyncio.Lock()):
            rows = self._rows.get(code, [])
            if not (rows and rows[0].seq <= after + 1 and rows[-1].seq >= last):
                rows = await _rows_after(code, after, limit)
                if rows and rows[-1].seq >= last:
                    self._rows[code] = rows
        return [row for row in rows if row.seq > after][:limit]

    def forget(self, code: str) -> None:
        self._rows.pop(code, None)
        self._locks.pop(code, None)


tails = Tails()


class RoomConsumer(LogConsumer):
    hub = hub
    GONE = "this room was deleted"
    reader = Reader()
    own_session: dict | None = None  # as the seat was told
    timer: asyncio.TimerHandle | None = None

    async def connect(self) -> None:
        await self.accept()
        self.code = names.normal(self.scope["url_route"]["kwargs"]["code"])
        self.visitor = limits.address_of_socket(self.scope)
        loop = asyncio.get_running_loop()
        self.timer = loop.call_later(HELLO_WITHIN, self._late)

    async def leave(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        await super().leave()
        if self.name and self.name not in self.hub.watched:
            tails.forget(self.name)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        if self.task is not None:
            await super().receive(text_data, bytes_data)
        elif not self.over:
            await self._hello(text_data)

    def _late(self) -> None:
        if self.task is None and not self.over:
            self.refuse(MALFORMED, 'the first message is {"token": "...", "after": SEQ}')

    async def _hello(self, text: str | None) -> None:
        """Take the first message, and begin to send."""
        message = _first(text)
        if message is None:
            self.refuse(MALFORMED, 'the first message is {"token": "...", "after": SEQ}')
            return
        self.token, after = message
        for name in (f"room {self.code}", f"room {self.code} {self.token}"):
            if wait := limits.guesses.wait(self.visitor, name):
                self.refuse(GUESSING, f"too many codes and tokens that are not valid; try again in {wait:.0f} s")
                return
        last, reader = await _look(self.code, self.token)
        if self.over:  # it was too late meanwhile
            return
        if last is None:
            self.refuse(UNKNOWN, "no such room")
            return
        limits.guesses.right(self.visitor, f"room {self.code}")
        if reader is None:
            self.refuse(REFUSED, "this token is not valid in this room")
            return
        limits.guesses.right(self.visitor, f"room {self.code} {self.token}")
        most = TEACHER_SOCKETS if reader.seat is None else SEAT_SOCKETS
        if sum(w.reader.seat == reader.seat for w in self._here()) >= most:
            self.refuse(GUESSING, f"{most} pages of this token are open already; close one of them")
            return
        self.reader = reader
        self.write(json.dumps({"seat": reader.seat}))
        self.follow(self.code, after, last=last, ended=False, message={})

    async def events(self, after: int, limit: int) -> list[tuple[int, str | None]]:
        rows = [
            (row.seq, self.reader.row(row)) for row in await tails.read(self.code, after, limit, self.entry.last_seq)
        ]
        mine = self.reader.seat
        if mine is not None and any(row and row["kind"] == "seat.reset" for _, row in rows):
            _, reader = await _look(self.code, self.token)
            if reader is None:
                self.refuse(REFUSED, "the teacher reset this seat")
                return []
        return [(seq, _text(row) if row else None) for seq, row in rows]

    def viewers(self, count: int) -> None:
        """Somebody came or went. Only the teacher hears of it."""
        if self.reader.seat is None:
            self.count = sorted({w.reader.seat for w in self._here()} - {None})
            self.bell.set()

    def _here(self) -> set[RoomConsumer]:
        """The sockets of the room that follow it now."""
        watched = self.hub.watched.get(self.code)
        return watched.watchers if watched is not None else set()

    def presence(self) -> dict:
        return {"online": self.count}

    def send_message(self, message: dict) -> None:
        """All sessions to the teacher, its own to a seat."""
        if self.reader.seat is None and message:
            super().send_message(message)
        elif message and (own := message["sessions"].get(self.reader.seat)) != self.own_session:
            self.own_session = own
            super().send_message({"session": own})


def _first(text: str | None) -> tuple[str, int] | None:
    """(token, after) of a first message; None if it is not one."""
    if text is None or len(text) > MAX_MESSAGE:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if not isinstance(message, dict) or not set(message) <= {"token", "after"}:
        return None
    token, after = message.get("token"), message.get("after", 0)
    if not isinstance(token, str) or not token or type(after) is not int or not 0 <= after < 10**9:
        return None
    if not token.isascii():  # as all of ours are; half of a surrogate pair has no bytes
        return None
    return token, after


def _text(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False, separators=(",", ":"))


@readers
def _look(code: str, token: str) -> tuple[int | None, Reader | None]:
    """(last seq, who reads) for a token; None for a room that does not exist, and for a token that is not valid."""
    room = Room.objects.filter(code=code).first()
    if room is None:
        return None, None
    if rules.teaches(room, token):
        return room.last_seq, Reader()
    seat = rules.seat_of(room, token).first()
    return room.last_seq, None if seat is None else log.reader_of(room.code, seat.number)


_rows_after = readers(log.rows_after)
