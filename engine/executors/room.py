"""The memory of one GPU, divided among the sessions that have data on it.

A session's data stays on the GPU while other sessions use the lane, because to load it again would take seconds. So a
session needs its part of the memory before its module is loaded. Its need, the most that it takes while it has the
lane, is estimated. Between its turns it holds less: so a session that had a trial counts with what its processes hold,
and of such sessions only the largest, which may be the next one in the lane, counts with its need beside that. The
oldest request comes first, whatever its size: a large module does not wait for ever behind small ones.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock


class Room:
    """`total`: bytes that sessions may hold together; `in_use`: bytes of the GPU that somebody holds now, None if that
    cannot be read (then each session counts with its estimate until it ends)."""

    def __init__(self, total: int, in_use: Callable[[], int | None] = lambda: None):
        self.total, self._in_use = total, in_use
        self._lock = Lock()
        self._line: list[Part] = []  # those inside, and behind them those that wait

    def part(self, need: int) -> Part:
        """A request for `need` bytes, at most all of them, in line from now on."""
        part = Part(self, min(need, self.total))
        with self._lock:
            self._line.append(part)
        return part

    def free(self) -> int:
        """Bytes for further sessions."""
        with self._lock:
            return max(0, self.total - self._used())

    def _used(self) -> int:
        inside = [part for part in self._line if part.inside]
        settled = [part.need for part in inside if part.settled]
        now = self._in_use() if settled else None
        if now is None:
            return sum(part.need for part in inside)
        return now + max(settled) + sum(part.need for part in inside if not part.settled)


class Part:
    """One session's part. `inside`: it has its memory; `settled`: its processes hold what they need."""

    def __init__(self, room: Room, need: int):
        self.room, self.need, self.inside, self.settled = room, need, False, False

    def enter(self) -> bool:
        """True once the memory is this session's. Call it again until then."""
        room = self.room
        with room._lock:
            if self.inside or self not in room._line:
                return self.inside
            before = room._line[: room._line.index(self)]
            self.inside = all(part.inside for part in before) and room._used() + self.need <= room.total
            return self.inside

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
