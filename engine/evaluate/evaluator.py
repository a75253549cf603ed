"""The one evaluator: it takes PyTorch's times of a problem, and builds, validates, times and examines candidates.

    evaluator = Evaluator(machine)              # or engine.devices.registry.get("cuda")
    evaluator.open(problem, cancelled)
    baselines = list(evaluator.baselines(["tf32", "f16"]))
    evaluator.build(candidate), evaluator.validate(candidate), evaluator.measure(candidate, baselines[0])
    evaluator.close()

Sessions, benches, the suite, the studies and `python -m engine verify` and `measure` use it, so all figures come from
the same checks. A machine (engine.evaluate.machine; engine.devices.cuda, engine.devices.modelled) defines where
programs are built, how a round of inputs runs (engine.evaluate.correctness.verification has the list of checks), and
whether a time is measured or predicted. A candidate's `form` selects its handler.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from threading import Lock
from typing import Any, TypeVar

from dsl.lower import Source
from engine.devices import NO_ROOM, Device, Problem, SessionRefused, TrialError
from engine.evaluate.machine import Apart, Form, Loaded, Machine, Workbench
from engine.evaluate.reference import compile_times
from engine.evaluate.timing.outside.plan import free_bytes_wanted
from engine.executors.room import Part
from engine.session import events
from sol.bounds import native_class, pytorch_class
from sol.graph import OpGraph

logger = logging.getLogger(__name__)

T = TypeVar("T")

LATER = 30.0  # seconds until a trial that had too little of the GPU's memory is tried again, if nobody leaves before


class Evaluator(Device):
    """One problem at a time on one machine; the device of a session. Not for several threads. `all_here`: every
    evaluator of the machine, if several sessions use it."""

    def __init__(self, machine: Machine, all_here: Callable[[], Iterable[Evaluator]] = tuple):
        self.machine, self._all_here = machine, all_here
        self.name, self.kind, self.hardware, self.hw = machine.name, machine.kind, machine.hardware, machine.hw
        self.lanes, self.forms = machine.lanes, machine.forms
        self.screens, self.builds_ahead = machine.screens, machine.builds_ahead
        self.times_compiled, self.place = machine.times_compiled, machine.place
        self.loads_apart, self.compiles_rest = machine.loads_apart, machine.compiles_rest
        self.problem: Problem | None = None
        self.at_work = True  # from its creation or the first use after `close`, until `close`
        self.out_of_time: Callable[[], bool] = lambda: False  # a search that is over screens nothing more
        self._workbench: Workbench | None = None
        self._keeps = False  # memory that only its last work needed
        self._trimming = Lock()  # another session may trim this one, but not while it closes
        self._apart = Lock()  # its processes work without the GPU's lane, so that nobody else may ask them anything
        self._ahead: Apart | None = None  # a second process of the module, for torch.compile
        self._loaded: tuple[Problem, Loaded | None] | None = None
        self._part: Part | None = None  # of the machine's memory
        self._cancelled: Callable[[], bool] = lambda: False

    # ---- one problem ----

    def describe(self) -> dict:
        return self.machine.describe()

    def warm(self, source_kind: str = "module") -> None:
        """Start what `open` needs, without waiting."""
        self.machine.warm(source_kind)

    def build_ahead(self, source: Source) -> None:
        """A hint: a later problem needs this build."""
        self.machine.build_ahead(source)

    def admit(self, problem: Problem) -> str:
        """What the problem waits for, in words; empty once it has its part of the GPU's memory."""
        if self.machine.room is None:
            return ""
        if self._part is None:
            self._part = self.machine.room.part(*self.machine.need(problem))
        if self._part.enter():
            return ""
        return f"this module takes about {gigabytes(self._part.need)}, {gigabytes(self.machine.room.free())} are free"

    def load(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        """Start the problem's processes, without using the GPU's lane. Raises SessionRefused."""
        self.at_work = True
        try:
            self._loaded = problem, self.machine.load(problem, cancelled)
        except SessionRefused as e:
            if e.code not in NO_ROOM or not self._others:
                raise  # else `open` loads it, and may let others give back their memory

    def open(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        """Prepare one problem. Raises SessionRefused."""
        if self._workbench is not None:
            self.close()
        self.at_work = True
        loaded = None
        if self._loaded is not None and self._loaded[0] is problem:
            (_, loaded), self._loaded = self._loaded, None  # the machine closes it if it fails

        def open_() -> Workbench:  # a second time, its processes are started again
            nonlocal loaded
            once, loaded = loaded, None
            return self.machine.open(problem, cancelled, once)

        self._workbench = self._with_room(open_)
        self.problem, self._cancelled = problem, cancelled

    def close(self) -> None:
        """End every process and drop all data of this problem. What sessions share stays warm."""
        with self._trimming:
            workbench, self._workbench, self.problem = self._workbench, None, None
        loaded, self._loaded = self._loaded, None
        part, self._part = self._part, None
        try:
            self.end_compiling()
            if workbench is not None:
                workbench.close()
            if loaded is not None and loaded[1] is not None:
                loaded[1].close()
        finally:
            if part is not None:
                part.leave()
            self.machine.close()
            self.at_work = False

    # ---- the memory of a GPU that several sessions use ----

    @property
    def _others(self) -> list[Evaluator]:
        return [other for other in self._all_here() if other is not self and other.at_work]

    def trim(self, *, hard: bool = False) -> None:
        """Give back the GPU's memory that no later request needs; with `hard`, also what can be made again. Call it
        with the GPU's lane. A session that compiles meanwhile keeps what it has, which is little."""
        if not (hard or self._keeps):
            return
        if hard:
            self.end_compiling(unless_wanted=True)
        if not self._apart.acquire(blocking=False):
            return
        try:
            with self._trimming, contextlib.suppress(TrialError):
                if self._workbench is not None:
                    self._workbench.trim(hard)
                    self._keeps = False
        finally:
            self._apart.release()

    def room_later(self) -> Callable[[], bool | None] | None:
        """What returns True once another session has left the GPU, or enough time has passed for one that had just come
        to hold less than it did then. None if there is no other."""
        others, until = self._others, time.monotonic() + LATER
        if not others:
            return None
        return lambda: any(not other.at_work for other in others) or time.monotonic() > until or None

    def clear_for(self, size: int) -> None:
        """Let the other sessions give back all they can, if less than `size` bytes of the GPU are free: a raw kernel is
        timed in batches as long as the free memory allows, and short ones are less steady. Call it with the lane."""
        left = self.machine.room.left() if self.machine.room is not None else None
        for other in self._others if left is not None and left < size else ():
            other.trim(hard=True)

    def _with_room(self, work: Callable[[], T]) -> T:
        """The result of work with the GPU's lane. If other sessions or the second process leave it too little memory,
        they give back all they can, and it runs once more."""
        others = self._others
        try:
            return self._once(work, others)
        except (SessionRefused, TrialError) as e:
            if e.code not in NO_ROOM or not (others or self._ahead is not None):
                raise
            logger.warning("the GPU's memory was too small; %d other sessions give back theirs", len(others))
        self.end_compiling()
        for other in others:
            other.trim(hard=True)
        if self._workbench is not None:
            self._workbench.programs.rounds.more_room()
        return self._once(work, others)

    def _once(self, work: Callable[[], T], others: Sequence[Evaluator]) -> T:
        """The result of work. Where other sessions make memory scarce, all give back afterwards what only their last
        work needed."""
        try:
            return work()
        finally:
            self._keeps = True
            if others and (self.machine.room is None or self.machine.room.scarce()):
                for one in (self, *others):
                    one.trim()

    @property
    def workbench(self) -> Workbench:
        if self._workbench is None:
            raise RuntimeError("no problem is open on this evaluator; call open first")
        return self._workbench

    def _form(self, candidate: Any) -> Form:
        if candidate.form == "program":
            return self.workbench.programs
        if writes := self.problem.graph.writes:
            path = self.problem.graph.tensors[writes[0]].path or writes[0]
            reason = f"the module's forward writes {path}, and a kernel computes only what forward returns"
            raise TrialError("check", "no_form", f"{reason}; write a program of the language")
        if candidate.form not in self.workbench.others:
            reason = f"{self.name} runs no candidates of the form {candidate.form}"
            raise TrialError("check", "no_form", f"{reason}; write a program of the language")
        return self.workbench.others[candidate.form]

    # ---- PyTorch ----

    def baselines(self, classes: Sequence[str]) -> Iterator[events.Baseline]:
        """PyTorch's own times: eager as it ships, then one for each class; and torch.compile's from earlier sessions
        here. Each eager one is alternated with that of the first class. Raises SessionRefused."""
        programs, names = self.workbench.programs, eager_names(self.problem.graph, classes)
        programs.rounds.prepare(list(classes))  # while builds run
        beside = first_baseline(self.problem.graph, classes)
        for name in names:
            try:
                yield self._with_room(functools.partial(programs.timing.baseline, name, beside))
            except TrialError as e:
                if name == "eager":
                    raise SessionRefused(e.code, e.reason) from None
                logger.warning("no baseline %s: %s", name, e.reason)
        if self.workbench.compile_times is not None:
            yield from self.workbench.compile_times.known(self._compiled_names(classes))

    def compile_names(self, classes: Sequence[str], ways: Sequence[str] = ()) -> list[str]:
        """Which of torch.compile's baselines to time: `ways`, or else both modes in each class."""
        if self.workbench.compile_times is None or self.problem.source_kind != "module":
            return []  # a program without a module has nothing to compile
        return list(ways) or self._compiled_names(classes)

    def compile_ahead(
        self, name: str, seconds: float | None = None, paused: Callable[[], bool] = lambda: False
    ) -> None:  # fmt: skip
        """Begin to compile for one of them in a second process, so that the search hides its seconds; unless its time
        is stored, another one was begun, or the module is large."""
        bench = self.workbench
        if bench.compiled_apart is None or self._ahead is not None or not compile_times.beside_a_search(name):
            return
        if bench.compile_times.read(name) is None:
            self._ahead = bench.compiled_apart()
            self._ahead.begin(name, seconds, paused)

    def compile(self, name: str, seconds: float | None = None) -> None:
        """Compile the module for one of them, unless its time is stored: 10 s to minutes, without the GPU's lane. The
        second process does it, if there is one. Only max-autotune, which tries kernels on the GPU, is left to
        `compiled`. Raises TrialError("measure")."""
        if self.workbench.compile_times.read(name) is not None:
            return
        with self._trimming:
            ahead = self._ahead if compile_times.beside_a_search(name) else None
            if ahead is not None:
                ahead.wanted = True  # nobody ends it for its memory from now on
        if ahead is not None:
            if ahead.compile(name, seconds):
                return
            self.end_compiling()
        with self._apart:
            self.workbench.programs.timing.compile(name, seconds)

    def compiled(self, name: str, classes: Sequence[str]) -> events.Baseline | None:
        """The time of one of them, stored for other sessions; taken in the process that compiled it. None if that was
        the second one and it was lost: then `compile` it again. Raises TrialError("measure")."""
        stored, beside = self.workbench.compile_times.read(name), first_baseline(self.problem.graph, classes)
        if stored is not None or self._ahead is None or not self._ahead.holds(name):
            return stored or self.baseline(name, beside)
        timed = self._once(functools.partial(self._ahead.baseline, name, beside), self._others)
        if timed is None:
            self.end_compiling()
        else:
            self.workbench.compile_times.write(timed)
        return timed

    def end_compiling(self, *, unless_wanted: bool = False) -> None:
        """End the second process."""
        with self._trimming:
            if self._ahead is None or (unless_wanted and self._ahead.wanted):
                return
            ahead, self._ahead = self._ahead, None
        ahead.close()

    def baseline(self, name: str, beside: str = "") -> events.Baseline:
        """One of engine.evaluate.reference.baseline_cache.NAMES, timed now (and stored, if the device stores times), in
        alternation with the one `beside`. Raises TrialError("measure")."""
        timed = self._with_room(lambda: self.workbench.programs.timing.baseline(name, beside))
        if self.workbench.compile_times is not None:
            self.workbench.compile_times.write(timed)
        return timed

    def _compiled_names(self, classes: Sequence[str]) -> list[str]:
        return compile_times.names(_theirs(self.problem.graph, classes), native_class(self.problem.graph))

    # ---- a candidate ----

    def check(self, candidate: Any) -> events.TrialChecked:
        """Findings in the text of a kernel before it runs. Raises TrialError("check")."""
        return self._form(candidate).check(candidate)

    def build(self, candidate: Any) -> events.TrialCompiled:
        """Raises TrialError("compile") with the compiler's output. A kernel is loaded, and what stays PyTorch beside
        programs is compiled, without the GPU's lane."""
        apart = candidate.form == "kernel" or candidate.rest
        with self._apart if apart else contextlib.nullcontext():
            return self._form(candidate).build(candidate)

    def prefetch(self, candidates: Sequence[Any]) -> None:
        """A hint: these may come next; they are built ahead if a core is free."""
        self.workbench.programs.builds.prefetch([c for c in candidates if c.form == "program"])

    def await_build(self, candidate: Any) -> bool:
        """Build a program that is only screened; False if it cannot be built, or not in time. Raises TrialError if it
        is cancelled."""
        if self.out_of_time():
            return False
        try:
            self.build(candidate)
        except TrialError as e:
            if e.code == "cancelled":
                raise
            return False
        return True

    def validate(self, candidate: Any) -> events.TrialValidated:
        """Check the results over every round. Raises TrialError("validate") with numbers in the reason."""
        try:
            return self._with_room(lambda: self._form(candidate).validate(candidate))
        finally:
            if self._part is not None:
                self._part.settle()

    def first_round(self, candidate: Any) -> events.TrialValidated:
        """Check a program's result only in the first round, for studies of times, whose results are not used. Raises
        TrialError("validate")."""
        return self.workbench.programs.rounds.validate(candidate, 1)

    def measure(self, candidate: Any, baseline: events.Baseline) -> events.TrialMeasured:
        """The time in alternation with the baseline, and the evidence of the run; or a prediction. Raises
        TrialError("measure")."""

        def work() -> events.TrialMeasured:
            form = self._form(candidate)
            if candidate.form == "kernel":
                self.clear_for(free_bytes_wanted(self.problem.graph))
            return form.measure(candidate, baseline)

        return self._with_room(work)

    def compare(self, candidates: Sequence[Any], baseline: events.Baseline) -> list[events.TrialMeasured]:
        """Several validated programs and the baseline in turns, in one run. Raises TrialError("measure")."""
        return self._with_room(lambda: self.workbench.programs.timing.compare(candidates, baseline))

    def quick_on(self, candidate: Any, baseline: events.Baseline, family: str) -> float:
        """Milliseconds of a few calls on inputs of a family, to measure the cost of a tripped guard. Raises
        TrialError("measure")."""
        return self._with_room(lambda: self.workbench.programs.timing.quick(candidate, baseline, family))

    def quick(self, candidates: Sequence[Any], baseline: events.Baseline) -> list[float | None]:
        """Milliseconds of a few calls of each, to choose which to try in full; None if it did not run. Nothing is
        verified here, so no time is a result. If `screens` is False, all are None."""
        return [self._quick(c, baseline) if self.screens else None for c in candidates]

    def _quick(self, candidate: Any, baseline: events.Baseline) -> float | None:
        try:
            return self._with_room(lambda: self.workbench.programs.timing.quick(candidate, baseline))
        except TrialError as e:
            if e.code == "cancelled":
                raise
            return None


def gigabytes(size: int) -> str:
    return f"{size / 1e9:.1f} GB"


def _theirs(graph: OpGraph, classes: Sequence[str]) -> list[str]:
    """PyTorch's classes to compare these with."""
    return list(dict.fromkeys(pytorch_class(cls, graph) for cls in classes))


def eager_names(graph: OpGraph, classes: Sequence[str]) -> list[str]:
    """PyTorch's eager modes for these classes: as it ships first, then one for each class."""
    native, theirs = native_class(graph), _theirs(graph, classes)
    names = ["eager"] if native == "f32" or native in theirs else []
    return [*names, *(f"eager_{cls}" for cls in theirs if cls not in (native, "f32"))]


def first_baseline(graph: OpGraph, classes: Sequence[str]) -> str:
    """The eager mode of the first class, with which every other baseline is alternated."""
    first = _theirs(graph, classes)[0]
    return "eager" if first in (native_class(graph), "f32") else f"eager_{first}"
