"""The executor of one machine: its cores, and a lane for each of its GPUs."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock

from engine.cores import worth
from engine.executors import LOADING, Share
from engine.executors.places import Line, Turn

PATIENCE = 5.0  # seconds: most pieces of work on a core take less, and what takes longer may never end
OF_TRACES = 3.0  # the same of a trace, which takes one or two: modules that sleep come in groups as well
# Seconds after which a thread that computes lets another one run. Python's default of 5 ms, with several sessions that
# plan, would delay each request to the processes that are timed by that much. Beside two threads that compute, a
# request to another process and back takes 2.2 ms with 0.5 ms here, and 0.7 ms with 0.1 ms, which slows them by 10%.
SWITCH = 0.0001
LOADS = 1  # sessions that open one GPU at a time: its driver serves them in turn, and the lane waits for it meanwhile
THOUGHTS = 2  # pieces of Python at a time: they share one interpreter, and with more of them the lane would wait for it


class Local:
    """See engine.executors.Executor. `cores`: of this process. As many builds run at a time; of other work a quarter of
    what they are worth, because a module's process keeps several cores busy while it starts, and sessions that start
    one after the other have their first trials earlier than sessions that start at once. The places of a GPU exist from
    their first use."""

    def __init__(self, cores: int | None = None):
        alone = cores or worth() or cores_here()
        cores = cores or cores_here()
        self._lines = {
            "think": Line("think", min(THOUGHTS, cores), PATIENCE),
            "core": Line("core", max(min(2, alone), alone // 4), PATIENCE),
            "build": Line("build", cores, PATIENCE),
            "report": Line("report", tracers(alone), OF_TRACES),
        }
        self._lock = Lock()

    def turn(self, place: str, share: Share) -> Turn:
        with self._lock:
            line = self._lines.get(place)
            if line is None:
                line = Line(place, LOADS, PATIENCE) if place.startswith(LOADING) else Line(place, 1)
                self._lines[place] = line
        return line.turn(share)

    @contextmanager
    def hold(self, turn: Turn, cancelled: Callable[[], bool] = lambda: False) -> Iterator[Turn]:
        with turn.line.hold(turn, cancelled):
            yield turn


def cores_here() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def tracers(cores: int | None = None) -> int:
    """Modules that are traced at a time."""
    return max(1, (cores or cores_here()) // 4)


def spares(cores: int | None = None) -> int:
    """Idle processes of a kind that wait for sessions, which come in groups: a class starts together."""
    return min(4, max(2, tracers(cores)))


@functools.cache
def local() -> Local:
    """The executor of this process."""
    sys.setswitchinterval(SWITCH)
    return Local()
