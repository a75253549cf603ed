"""What /proc shows of a candidate's processes from outside, where the candidate cannot lie.

The libraries that they have loaded, the signals that they handle, their threads, and the time of the cores that they
use while nobody asks anything.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from engine.evaluate.integrity.process.entries import LIBRARY

FAULTS = ("SIGSEGV", "SIGBUS", "SIGTRAP", "SIGILL", "SIGALRM", "SIGVTALRM", "SIGPROF")
LOOKS = 8  # at the threads, within WATCHED
REST, WATCHED = 0.03, 0.08  # seconds: threads of OpenMP may spin for a while after their work
CHILDREN = 0.05  # seconds of children in a row of calls, of which none is the first
BUSY = 0.25  # of one core; threads that wait use less


@dataclass(frozen=True)
class Sight:
    """One look. `libraries`: file names of libraries of numbers; `signals`: names of handled ones of FAULTS; `tasks`:
    threads of all processes; `processes`: their number."""

    libraries: frozenset[str]
    signals: frozenset[str]
    tasks: int
    processes: int


def look(pids: list[int]) -> Sight:
    """The processes as they are now."""
    libraries: set[str] = set()
    signals: set[str] = set()
    tasks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError):
            libraries |= _libraries(pid)
            caught, threads = _status(pid)
            signals |= {name for name in FAULTS if caught >> (getattr(signal, name) - 1) & 1}
            tasks += threads
    return Sight(frozenset(libraries), frozenset(signals), tasks, len(pids))


def busy(pids: list[int]) -> float:
    """The share of one core that these processes ask for while nobody asks them anything."""
    time.sleep(REST)
    before, began, ready = _spent(pids), time.monotonic(), 0
    for _ in range(LOOKS):
        time.sleep(WATCHED / LOOKS)
        ready += _ready(pids)
    # The kernel books what a thread has waited when it runs next, which on a busy machine may be after this look.
    return max((_spent(pids) - before) / (time.monotonic() - began), ready / LOOKS)


def waited_for(pids: list[int]) -> float:
    """Seconds of the cores that children have used for which these processes have waited."""
    ticks = 0
    for pid in pids:
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
            ticks += int(fields[13]) + int(fields[14])
    return ticks / os.sysconf("SC_CLK_TCK")


def _libraries(pid: int) -> set[str]:
    names = set()
    with open(f"/proc/{pid}/maps", errors="replace") as f:
        for line in f:
            if ".so" in line and LIBRARY.search(name := os.path.basename(line.rstrip("\n"))):
                names.add(name)
    return names


def _status(pid: int) -> tuple[int, int]:
    """(the mask of handled signals, the number of threads)."""
    caught = threads = 0
    with open(f"/proc/{pid}/status") as f:
        for line in f:
            if line.startswith("SigCgt:"):
                caught = int(line.split()[1], 16)
            elif line.startswith("Threads:"):
                threads = int(line.split()[1])
    return caught, threads


def _ready(pids: list[int]) -> int:
    """How many threads of these processes run or wait for a core."""
    return sum(text.rpartition(")")[2].split()[:1] == ["R"] for text in _of_threads(pids, "stat"))


def _spent(pids: list[int]) -> float:
    """Seconds that all threads of these processes have run or waited for a core, because the machine may be busy."""
    total = 0
    for text in _of_threads(pids, "schedstat"):
        with contextlib.suppress(ValueError):
            total += sum(map(int, text.split()[:2]))
    return total / 1e9


def _of_threads(pids: list[int], name: str) -> Iterator[str]:
    """The text of this file in /proc, of each thread that there still is."""
    for pid in pids:
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with contextlib.suppress(OSError):
                    yield Path(f"/proc/{pid}/task/{task}/{name}").read_text(errors="replace")  # a thread names itself
