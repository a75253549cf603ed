"""torch.compile in a second process of the module, while the search tries candidates in the first one.

A compilation takes 4 s in the mean for small modules and 30 to 70 s for large ones, on one core and without the GPU; a
search mostly waits for builds. So the compilation need not wait for the search's end. The first process cannot do it,
because it has the baselines that candidates are timed beside. What was compiled in the second process is timed there,
in alternation with the eager baseline in the same process.

The second process may be missing at any time: it could not start, found too little memory, or had to give back its own.
Then the first process compiles after the search, as if there were no second one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock, Thread

from engine.devices import NO_ROOM, Problem, TrialError
from engine.evaluate.reference.module_process import Reference
from engine.evaluate.timing.paired_timing import PairedTiming
from engine.session import events
from sol.graph import OpGraph

logger = logging.getLogger(__name__)

LARGEST = 2_000_000_000  # bytes of a module's inputs, parameters and results that the GPU may hold a second time


def fits(graph: OpGraph) -> bool:
    """Return True if a second copy of the module's tensors takes little of the GPU's memory."""
    tensors = graph.tensors.values()
    return sum(t.bytes for t in tensors if t.kind != "intermediate" or t.name in graph.outputs) <= LARGEST


@dataclass(frozen=True)
class _Session:
    """What PairedTiming asks of a GpuSession to time PyTorch alone."""

    problem: Problem
    reference: Reference


@dataclass(frozen=True)
class _Rounds:
    """What PairedTiming asks of GpuRounds to time PyTorch alone. `timing_seed`: of the first process, so that the
    inputs are the same. `computed`: always 0, because this process computes no reference that closes its baselines."""

    timing_seed: int
    computed: int = 0


class CompiledApart:
    """The second process of one module. It starts with the first `begin`. Not for several threads, except `close`.

    `reference(cancelled=)`: the process, not yet started; `cancelled`: the session is stopped; `condition`, `overhead`:
    of PairedTiming. `wanted`: the search is over and the session asked for a time, so that nothing ends the process
    now to make room or because the session is paused.
    """

    def __init__(
        self, problem: Problem, reference: Callable[..., Reference], cancelled: Callable[[], bool], seed: int,
        condition: Callable[[], dict], overhead: float = 0.0,
    ):  # fmt: skip
        self.wanted = False
        self._cancelled, self._paused = cancelled, lambda: False
        self._reference = reference(cancelled=self._ends)
        self._timing = PairedTiming(_Session(problem, self._reference), _Rounds(seed), condition, overhead)
        self._thread: Thread | None = None
        self._name = ""  # of the baseline that the thread compiles
        self._error: Exception | None = None  # that ended the thread
        self._closing = False
        self._life = Lock()  # nothing begins while, or after, it is closed

    def begin(self, name: str, seconds: float | None = None, paused: Callable[[], bool] = lambda: False) -> None:
        """Compile for one of torch.compile's baselines, at most so many seconds, in a thread. A pause ends the process
        unless it is wanted: a session that is paused computes nothing."""
        self._wait()
        with self._life:
            self._name, self._paused, self._error = name, paused, None
            if self._closing:
                self._error = TrialError("measure", "reference_cancelled", "the second process was ended")
                return
            thread = Thread(target=self._compile, args=(name, seconds), daemon=True, name="compile apart")
            thread.start()
            self._thread = thread

    def _compile(self, name: str, seconds: float | None) -> None:
        try:
            self._reference.start()  # a fresh one, where the last way was ended by its time
            self._timing.compile(name, seconds)
        except Exception as e:
            self._error = e

    def compile(self, name: str, seconds: float | None = None) -> bool:
        """Wait until it is compiled, here and now if it was not begun. Return False if the first process must do it.
        Raises TrialError("measure") for the module's own error or its time limit, which the first process would meet
        too."""
        self.wanted = True
        if name != self._name:
            self.begin(name, seconds)
        self._wait()
        if self._error is not None:
            self._raise_own(self._error)
        return self._error is None

    def holds(self, name: str) -> bool:
        """Return True if this baseline was compiled last, and can be timed here."""
        return name == self._name and self._thread is None and self._error is None

    def baseline(self, name: str, beside: str = "") -> events.Baseline | None:
        """Time what was compiled last (PairedTiming.baseline), with the GPU's lane. None if the first process must do
        it. Raises TrialError("measure") for the module's own error."""
        try:
            return self._timing.baseline(name, beside)
        except TrialError as e:
            self._error = e
            self._raise_own(e)
            return None

    def close(self) -> None:
        """End the thread and the process. Any thread may call it; the next `compile` returns False."""
        with self._life:
            self._closing = True
        self._wait()
        self._reference.close()

    def _wait(self) -> None:
        if (thread := self._thread) is not None:
            thread.join()  # each of its requests has a limit, and polls `_ends`
            self._thread = None

    def _ends(self) -> bool:
        return self._closing or self._cancelled() or (not self.wanted and self._paused())

    def _raise_own(self, error: Exception) -> None:
        """Raise an error that the first process would meet too."""
        if isinstance(error, TrialError) and (self._cancelled() or _of_module(error.code)):
            raise error
        logger.warning("the module's first process compiles it after the search: %s", error)


def _of_module(code: str) -> bool:
    """Return True for an error that the module's first process would give too: an answer of the module, or the end of
    its time. All other ends of the process may be those of a second one alone."""
    return code == "reference_time_limit" or not (code in NO_ROOM or code.startswith("reference_"))


__all__ = ["LARGEST", "CompiledApart", "fits"]
