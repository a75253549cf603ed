"""The memory of one GPU, divided among the sessions that have data on it.

A session's data stays on the GPU while other sessions use the lane, because to load it again would take seconds. So a
session needs its part of the memory before its module is loaded. What it needs at most, while it has the lane, and what
it holds between its turns are estimated. One session has the lane at a time, so all of them count with what they hold,
and only the one for which that makes the largest difference with its need. A session that had a trial counts with what
its processes really hold. Estimates may be too low: then sessions give back what they can, and the work runs once more
(engine.evaluate.evaluator). The oldest request comes first, but while it waits a few small ones may pass it: a large
module does not wait for ever behind small ones, and they do not all wait with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

SCARCE = 0.75  # of the memory: the rest is for the next session, which may be a large one
BUSY = 4  # sessions that keep the lane busy: while so many have their memory, nobody waits longer for want of more
LONG = 20.0  # seconds: unless somebody has waited for so long, who may need more than they ever leave
PASSES = 3  # small requests that may pass one that waits
SMALL = 1 / 8  # of the memory: what such a request needs at most
# Of the memory: what one request counts with at most. An estimate beyond it is a guess, and to be alone for it, a large
# module waited for every small one, which may compile for minutes without the GPU, and everybody else behind it.
MOST = 0.85


class Room:
    """`total`: bytes that sessions may hold together; `in_use`: bytes of the GPU that somebody holds now, None if that
    cannot be read (then each session counts with its estimates until it ends)."""

    def __init__(self, total: int, in_use: Callable[[], int | None] = lambda: None):
        self.total, self._in_use = total, in_use
        self._lock = Lock()
        self._line: list[Part] = []  # those inside, and behind them those that wait

    def part(self, need: int, resting: int | None = None) -> Part:
        """A request for `need` bytes, at most MOST of all, in line from now on. `resting`: bytes of it between its
        turns; None: all."""
        need = min(need, int(MOST * self.total))
        part = Part(self, need, need if resting is None else min(resting, need))
        with self._lock:
            self._line.append(part)
        return part

    def free(self) -> int:
        """Bytes for further sessions."""
        with self._lock:
            return max(0, self.total - self._used([part for part in self._line if part.inside]))

    def left(self) -> int | None:
        """Bytes of the GPU that nobody holds now; None if that cannot be read."""
        now = self._in_use()
        return None if now is None else max(0, self.total - now)

    def scarce(self) -> bool:
        """Return True if the lane may soon be idle because a session waits for memory, or if so much is in use that the
        next one might wait. What the sessions inside keep for their next turn is then worth less than its memory. (To
        give it back took 2.7% of the lane's seconds of 16 sessions, without what it takes to make it again.)"""
        with self._lock:
            waiting = [part for part in self._line if not part.inside]
            if len(self._line) - len(waiting) < min(BUSY, len(self._line)) or any(part.waits_long for part in waiting):
                return True
        now = self._in_use()
        return now is None or now > SCARCE * self.total

    def _used(self, parts: list[Part]) -> int:
        """Bytes that these parts take together."""
        now = self._in_use() if any(part.settled for part in parts) else None
        resting = sum(part.resting for part in parts if now is None or not part.settled)
        return (now or 0) + resting + max((part.need - part.resting for part in parts), default=0)


class Part:
    """One session's part. `inside`: it has its memory; `settled`: its processes hold what they need."""

    def __init__(self, room: Room, need: int, resting: int):
        self.room, self.need, self.resting, self.inside, self.settled = room, need, resting, False, False
        self.passed = 0  # by so many small ones while it waited
        self._since = time.monotonic()

    def enter(self) -> bool:
        """True once the memory is this session's. Call it again until then."""
        room = self.room
        with room._lock:
            if self.inside or self not in room._line:
                return self.inside
            before = [part for part in room._line[: room._line.index(self)] if not part.inside]
            inside = [part for part in room._line if part.inside]
            most = PASSES if self.need <= SMALL * room.total else 0
            may = all(part.passed < most for part in before)
            self.inside = may and room._used([*inside, self]) <= room.total
            for part in before if self.inside else ():
                part.passed += 1
            return self.inside

    @property
    def waits_long(self) -> bool:
        """Of one that is not inside."""
        return time.monotonic() - self._since > LONG

    def settle(self) -> None:
        """A trial ended, so that the session's processes hold what they keep."""
        self.settled = True

    def ahead(self) -> int:
        """Sessions that wait before this one."""
        with self.room._lock:
            if self not in self.room._line:
                return 0
            return sum(not part.inside for part in self.room._line[: self.room._line.index(self)])

    def leave(self) -> None:
        """Give the memory back, or leave the line."""
        with self.room._lock:
            if self in self.room._line:
                self.room._line.remove(self)
            self.inside = False
