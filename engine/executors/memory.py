"""The memory of the sessions of one engine: how much its processes hold, and whether another session fits.

Measured is the whole process tree of the engine, because sessions share warm processes. What the forks of one process
still share (engine.sandbox.forkserver) counts once. A session that was admitted a moment ago does not hold its memory
yet, so it counts with what a session usually takes.
"""

from __future__ import annotations

import os
import time

from engine.sandbox import tree

USUAL = 700 << 20  # bytes: a module's process and the process that checks meanings, both with torch
ON_A_GPU = 4 << 30  # bytes: both processes with CUDA and its libraries, and the module's tensors in shared memory
FASTEST = 0.5  # seconds between two measurements; one takes 20 ms
REFRESHED = 4  # forks whose shared memory is measured anew each time; one takes a millisecond


def machine_bytes() -> int:
    """The memory of this machine or of its control group, whichever is smaller."""
    total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            with open(path) as f:
                text = f.read().strip()
        except OSError:
            continue
        if text.isdigit():
            total = min(total, int(text))
    return total


class Memory:
    """`limit`: bytes that this process and its descendants may hold; None: half of the machine's. `usual`: bytes that a
    session takes, until measured."""

    def __init__(self, limit: int | None = None, usual: int = USUAL):
        self.limit = limit or machine_bytes() // 2
        self.usual = float(usual)
        self._idle = 0  # bytes of the tree when no session ran
        self._used, self._at = 0, 0.0
        self._shared: dict[int, int] = {}  # fork -> bytes that others count; the one measured longest ago comes first

    def used(self) -> int:
        """Bytes that this process and all its descendants hold, without files."""
        if time.monotonic() - self._at > FASTEST:
            members = tree.descendants(os.getpid())
            self._used = tree.usage(members)[0] - self._twice(members)
            self._at = time.monotonic()
        return self._used

    def _twice(self, members: list[int]) -> int:
        """Bytes that the usage of these processes counts more than once."""
        forks = tree.adopted() & set(members)
        self._shared = {pid: size for pid, size in self._shared.items() if pid in forks}
        for pid in [*(forks - self._shared.keys()), *list(self._shared)[:REFRESHED]]:
            self._shared.pop(pid, None)
            self._shared[pid] = tree.shared([pid])
        return sum(self._shared.values())

    def fits_another(self, sessions: int, new: int) -> bool:
        """Whether one more session fits beside `sessions`, of which `new` do not hold their memory yet. The first one
        always does."""
        used = self.used()
        if not sessions:
            self._idle = used
            return True
        if not new:
            self.usual = max(0.9 * self.usual, (used - self._idle) / sessions)
        return used + (new + 1) * self.usual <= self.limit
