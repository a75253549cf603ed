"""The processes of this machine, read from /proc once for all who look at them.

A reading takes milliseconds to tenths of a second on a busy machine, and holds up every other thread of the interpreter
meanwhile. So those who look again and again share one reading, and no more than a tenth of the time goes into it.
"""

from __future__ import annotations

import contextlib
import functools
import mmap
import os
import threading
import time
from dataclasses import dataclass

SHARE = 10  # a reading is good for as many times the time that it took
KERNEL = 0x00200000  # flag of the kernel's own threads, of which a machine has hundreds (PF_KTHREAD)
KERNEL_AGE = 10.0  # seconds for which a process id is known to be the kernel's


@dataclass(frozen=True, slots=True)
class Process:
    """`session`: the id of its leader, 0 for one outside of this container; `resident`: bytes, with those of mapped
    files."""

    pid: int
    parent: int
    session: int
    threads: int
    resident: int


class Table:
    """All processes at one moment, without the kernel's own. `at`: when the reading began; `took`: seconds."""

    def __init__(self, kernel: frozenset[int] = frozenset()):
        self.at = time.monotonic()
        self.kernel = set(kernel)
        self.processes: dict[int, Process] = {}
        folder = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY)
        try:
            for name in os.listdir(folder):
                if name.isdigit() and int(name) not in kernel:
                    with contextlib.suppress(OSError, ValueError, IndexError):  # it ended meanwhile
                        self._add(int(name), _read(f"{name}/stat", folder))
        finally:
            os.close(folder)
        self.took = time.monotonic() - self.at

    def _add(self, pid: int, stat: bytes) -> None:
        fields = stat.rpartition(b")")[2].split()  # from the third on, proc(5)
        parent = int(fields[1])
        if int(fields[6]) & KERNEL:
            self.kernel.add(pid)
        else:
            session, threads, pages = int(fields[3]), int(fields[17]), int(fields[21])
            self.processes[pid] = Process(pid, parent, session, threads, pages * mmap.PAGESIZE)

    @functools.cached_property
    def children(self) -> dict[int, list[int]]:
        """The process ids by their parent's."""
        children: dict[int, list[int]] = {}
        for p in self.processes.values():
            children.setdefault(p.parent, []).append(p.pid)
        return children

    @functools.cached_property
    def orphans(self) -> dict[int, int]:
        """User ids, by process id, of all whose parent may be another one than started them: those of init, of this
        process and of those above it, any of which may adopt."""
        adopters, pid = {1, os.getpid()}, os.getpid()
        while (p := self.processes.get(pid)) is not None and p.parent not in adopters:
            adopters.add(pid := p.parent)
        owners = {}
        for pid in (pid for parent in adopters for pid in self.children.get(parent, ())):
            with contextlib.suppress(OSError):
                owners[pid] = os.stat(f"/proc/{pid}").st_uid
        return owners

    def of_session(self, session: int) -> int:
        """Resident bytes of every process in a session; none for 0, which is no session: in a container, all whose
        leader is outside of it have that number."""
        return sum(p.resident for p in self.processes.values() if p.session == session) if session else 0


def _read(path: str, folder: int) -> bytes:
    file = os.open(path, os.O_RDONLY, dir_fd=folder)
    try:
        return os.read(file, 1024)
    finally:
        os.close(file)


_last: Table | None = None
_kernel: tuple[float, frozenset[int]] = (0.0, frozenset())  # since when, and which
_lock = threading.Lock()


def table(age: float = 0.0) -> Table:
    """All processes now; or, with `age`, as they were at most so many seconds ago, and more where a reading takes long.
    Threads that ask at the same time share one reading."""
    global _last, _kernel
    asked = time.monotonic()
    with _lock:
        good = max(age, SHARE * _last.took) if age and _last is not None else 0.0
        if _last is None or _last.at < asked - good:
            since, kernel = _kernel if asked - _kernel[0] < KERNEL_AGE else (asked, frozenset())
            _last = Table(kernel)
            _kernel = since, frozenset(_last.kernel)
        return _last
