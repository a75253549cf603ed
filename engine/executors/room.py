"""The memory of one GPU, divided among the sessions that have data on it.

A session's data stays on the GPU while other sessions use the lane, because to load it again would take seconds. So a
session needs its part of the memory before its module is loaded. The oldest request comes first, whatever its size: a
large module does not wait for ever behind small ones.
"""

from __future__ import annotations

from threading import Lock


class Room:
    """`total`: bytes that sessions may hold together."""

    def __init__(self, total: int):
        self.total = total
        self._lock = Lock()
        self._line: list[Part] = []  # those inside, and behind them those that wait

    def part(self, need: int) -> Part:
        """A request for `need` bytes, at most all of them, in line from now on."""
        part = Part(self, min(need, self.total))
        with self._lock:
            self._line.append(part)
        return part

    @property
    def free(self) -> int:
        with self._lock:
            return self.total - sum(part.need for part in self._line if part.inside)


class Part:
    """One session's part. `inside`: it has its memory."""

    def __init__(self, room: Room, need: int):
        self.room, self.need, self.inside = room, need, False

    def enter(self) -> bool:
        """True once the memory is this session's. Call it again until then."""
        room = self.room
        with room._lock:
            if self.inside or self not in room._line:
                return self.inside
            before = room._line[: room._line.index(self)]
            used = sum(part.need for part in room._line if part.inside)
            self.inside = all(part.inside for part in before) and used + self.need <= room.total
            return self.inside

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
