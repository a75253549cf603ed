"""Lower the priority of a sandbox whose text may never end."""

from __future__ import annotations

import os
import time

from engine.sandbox import tree

NICE = 15
TICK = os.sysconf("SC_CLK_TCK")


class Patience:
    """`look`, called often, lowers the priority of a process and its descendants once they have used `seconds` of CPU
    time, counted from now. Wall time would not do: on a busy machine an honest text takes long, and with a low priority
    it would take longer still."""

    def __init__(self, pid: int, uid: int | None, seconds: float):
        self.pid, self.uid = pid, uid
        self._most = cpu_seconds(pid, uid) + seconds
        self._next = time.monotonic() + seconds / (os.cpu_count() or 1)

    def look(self) -> None:
        if time.monotonic() < self._next:
            return
        left = self._most - cpu_seconds(self.pid, self.uid)
        if left <= 0:
            tree.lower(self.pid, self.uid, NICE)
        self._next = time.monotonic() + max(left, 0.25)


def cpu_seconds(pid: int, uid: int | None = None) -> float:
    """CPU time of a process and its descendants, with that of children that they waited for."""
    ticks = 0
    for one in tree.descendants(pid, uid):
        try:
            with open(f"/proc/{one}/stat", "rb") as f:
                ticks += sum(map(int, f.read().rpartition(b")")[2].split()[11:15]))
        except OSError:
            continue
    return ticks / TICK
