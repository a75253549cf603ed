"""The log of a room: appended under the room's lock, folded once in this process, read after a cursor.

As with a session's log, the database is the only channel, and an answer is stored before its sender hears so. What is
folded here was read from the database, committed, so nothing of it can be rolled back.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from threading import RLock
from typing import Any, TypeVar

from django.db import transaction

from playground.access.answers import Refused
from playground.models import Room, RoomEvent
from playground.rooms.events import BEFORE, FOR_TEACHER, Event
from playground.rooms.state import RoomState

T = TypeVar("T")
Items = Iterable[tuple[Event, int | None]]  # (event, its seat)
KEPT = 64  # rooms whose state this process keeps folded
_states: OrderedDict[str, RoomState] = OrderedDict()
_lock = RLock()
bells: list[Callable[[str], None]] = []  # called with a room's code after each append, from any thread


def gone() -> Refused:
    """The refusal of a room that is not there, a new one each time: an exception that is raised twice keeps the frames
    of both, with all that they hold."""
    return Refused(404, "There is no such room.", "Check the code; rooms are deleted some weeks after their end.")


def read(code: str, look: Callable[[RoomState], T]) -> T:
    """`look` at the room's state, as it is now. `look` must not keep parts of the state. Raises Refused(404)."""
    with _lock:
        return look(_state(code))


def append(code: str, decide: Callable[[Room, RoomState], Items]) -> int:
    """Append what `decide` makes of the room and its state, which nobody changes meanwhile. Returns the last seq.
    Raises Refused: `decide`'s, or 404."""
    with transaction.atomic():
        room = Room.objects.select_for_update().filter(code=code).first()
        if room is None:
            raise gone()
        with _lock:
            items = list(decide(room, _state(code)))
        write(room, items)
    for ring in bells:
        ring(code)
    return room.last_seq


def write(room: Room, items: Items) -> None:
    """Insert events after `room.last_seq`. The caller has locked the room, or is making it."""
    rows = []
    for event, seat in items:
        room.last_seq += 1
        data = event.encode()
        rows.append(RoomEvent(room=room, seq=room.last_seq, kind=event.KIND, t=time.time(), seat=seat, data=data))
    if rows:
        RoomEvent.objects.bulk_create(rows)
        room.save(update_fields=["last_seq"])


@dataclass(frozen=True)
class Reader:
    """Who reads a log: the teacher (`seat` None), or a seat, which reads what is about the room and about itself.
    `since`: the seat's events up to this one are of somebody who had it before."""

    seat: int | None = None
    since: int = 0

    def row(self, event: RoomEvent) -> dict[str, Any] | None:
        """The event as this reader may see it, None if it may not."""
        row = event.row()
        if self.seat is None:
            return row
        if event.seat is None:
            return None if event.kind in FOR_TEACHER else row
        if event.seat != self.seat or event.seq <= self.since:
            return None
        if event.kind == "seat.answered" and event.data["step"].startswith(f"{BEFORE}:"):
            row["data"] = {k: v for k, v in event.data.items() if k not in ("right", "why")}
        return row


def reader_of(code: str, number: int) -> Reader:
    """The reader on a seat. Raises Refused(404)."""
    return Reader(number, read(code, lambda state: state.seats[number].since))


def rows_after(code: str, seq: int, limit: int) -> list[RoomEvent]:
    """At most `limit` events after `seq`."""
    return list(RoomEvent.objects.filter(room_id=code, seq__gt=seq).order_by("seq")[:limit])


def after(code: str, seq: int, limit: int, reader: Reader) -> list[tuple[int, dict[str, Any] | None]]:
    """At most `limit` (seq, event) after `seq`; None instead of an event that the reader may not see."""
    return [(row.seq, reader.row(row)) for row in rows_after(code, seq, limit)]


def forget(code: str) -> None:
    """Drop the state of a room that was deleted."""
    with _lock:
        _states.pop(code, None)


def _state(code: str) -> RoomState:
    state = _states.get(code) or RoomState()
    rows = RoomEvent.objects.filter(room_id=code, seq__gt=state.seq).order_by("seq")
    for row in rows.values_list("seq", "kind", "t", "seat", "data").iterator():
        state.apply(*row)
    if not state.seq or not Room.objects.filter(code=code).exists():
        _states.pop(code, None)
        raise gone()
    _states[code] = state
    _states.move_to_end(code)
    while len(_states) > KEPT:
        _states.popitem(last=False)
    return state
