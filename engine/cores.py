"""Keep some cores of this machine quiet for the processes that are timed: all else stays on the others.

Affinity and priority belong to a thread on Linux, and the processes that it starts inherit them. So a thread that only
builds goes aside for good, and one that starts a process goes aside while it does; a process that is timed returns to
all cores when it gets its GPU's lane. Two threads of one physical core slow each other down, so whole ones are quiet.
Nothing happens before `reserve`, on a machine of few cores, or elsewhere than on Linux.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

QUIET = 4  # cores for the lane: the module's process, the one that runs the programs, and this one
ENOUGH = 8  # a machine with fewer cores needs all of them for builds
NICE = 10
TOPOLOGY = Path("/sys/devices/system/cpu")

_all: set[int] = set()  # the cores of this process, once some are reserved


def reserve() -> None:
    """Keep cores quiet from now on: this process times on a GPU."""
    if not _all and hasattr(os, "sched_getaffinity"):
        cores = os.sched_getaffinity(os.getpid())
        _all.update(cores if len(cores) >= ENOUGH else ())


def others(cores: set[int]) -> set[int]:
    """The cores for all that is not timed: all but the first QUIET, and but those that share a physical core with one
    of these."""
    quiet: set[int] = set()
    for core in sorted(cores):
        if len(quiet) < QUIET:
            quiet |= _same_physical(core) & cores
    return cores - quiet or set(sorted(cores)[QUIET:])  # the latter where one physical core has them all


def side_by_side(cores: Iterable[int]) -> list[int]:
    """The cores in order, but that those of one physical core follow each other: a part of them shares few."""
    every = set(cores)
    return sorted(every, key=lambda core: (min(_same_physical(core) & every), core))


def _same_physical(core: int) -> set[int]:
    """The logical cores of the physical one, by Linux: "0-1" or "0,8"."""
    try:
        text = (TOPOLOGY / f"cpu{core}/topology/thread_siblings_list").read_text()
        spans = [span.partition("-") for span in text.strip().split(",")]
        return {core}.union(*(range(int(first), int(last or first) + 1) for first, _, last in spans))
    except (OSError, ValueError):
        return {core}


def stay_aside() -> None:
    """This thread, and every process that it starts, leaves the quiet cores and gets a lower priority."""
    if _all:
        _move(0, others(_all))
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, 0, NICE)


@contextlib.contextmanager
def aside() -> Iterator[None]:
    """Processes that this thread starts inside the block begin beside the quiet cores."""
    if not _all:
        yield
        return
    before = os.sched_getaffinity(0)
    _move(0, others(_all))
    try:
        yield
    finally:
        _move(0, before)


def everywhere(pids: Iterable[int], quiet: bool = True) -> None:
    """Let these processes, with all their threads, use all cores; without `quiet`, all but the quiet ones."""
    for pid in pids if _all else ():
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                _move(int(task), _all if quiet else others(_all))


def _move(task: int, cores: set[int]) -> None:
    with contextlib.suppress(OSError):  # it ended, or its owner does not allow it
        os.sched_setaffinity(task, cores)
