"""Keep some cores of this machine quiet for the processes that are timed: all else stays on the others.

Affinity and priority belong to a thread on Linux, and the processes that it starts inherit them. So a thread that only
builds goes aside for good, and one that starts a process goes aside while it does; a process that is timed returns to
all cores when it gets its GPU's lane. Two threads of one physical core slow each other down, so whole ones are quiet.
A virtual machine does not say which those are, so `reserve` measures how much work all cores do together. Nothing
happens before `reserve`, on a machine of few cores, or elsewhere than on Linux.
"""

from __future__ import annotations

import contextlib
import os
import random
import threading
import time
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path

QUIET = 4  # cores for the lane: the module's process, the one that runs the programs, and this one
ENOUGH = 8  # a machine with fewer cores needs all of them for builds
NICE = 10
TOPOLOGY = Path("/sys/devices/system/cpu")
MEASURED = 0.05  # seconds of work for each look at how fast cores are
BYTES = 1 << 15  # to compress, which Python's threads do side by side

_all: set[int] = set()  # the cores of this process, once some are reserved
_worth = 0  # see `worth`, once measured


def reserve() -> None:
    """Keep cores quiet from now on: this process times on a GPU."""
    if not _all and hasattr(os, "sched_getaffinity"):
        cores = os.sched_getaffinity(os.getpid())
        if len(cores) >= ENOUGH:
            _all.update(cores)
            _measure()


def worth() -> int | None:
    """How many cores would do alone what all of this process do together, None before `reserve`. Half as many as there
    are, about, where each two of them are threads of one physical core."""
    return _worth or None


def _measure() -> None:
    global _worth
    alone = max(_speed([core]) for core in sorted(_all)[:3])  # the fastest, because others may use a core just then
    _worth = max(1, min(len(_all), round(_speed(_all) / alone)))


def _speed(cores: Iterable[int]) -> float:
    """Texts compressed a second, by a thread on each of these cores."""
    done: list[float] = []
    text = random.Random(0).randbytes(BYTES)

    def work(core: int) -> None:
        _move(0, {core})
        start.wait()
        turns, began = 0, time.perf_counter()
        while (now := time.perf_counter()) < began + MEASURED:
            zlib.compress(text)
            turns += 1
        done.append(turns / (now - began))

    threads = [threading.Thread(target=work, args=(core,), daemon=True) for core in cores]
    start = threading.Barrier(len(threads))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done)


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
