"""The one evaluator: it takes PyTorch's times of a problem, and builds, validates, times and examines candidates.

    evaluator = Evaluator(machine)              # or engine.devices.registry.get("cuda")
    evaluator.open(problem, cancelled)
    baselines = list(evaluator.baselines(["tf32", "f16"]))
    evaluator.build(candidate), evaluator.validate(candidate), evaluator.measure(candidate, baselines[0])
    evaluator.close()

Sessions, benches, the suite, the studies and `python -m engine verify` and `measure` use it, so all figures come from
the same checks. A machine (engine.devices.cuda, engine.devices.modelled) defines where programs are built, how a round
of inputs runs (engine.evaluate.correctness.verification has the list of checks), and whether a time is measured or
predicted. A candidate's `form` selects its handler.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dsl.lower import Source
from engine.devices import Device, Problem, SessionRefused, TrialError
from engine.evaluate.correctness.verification import Rounds
from engine.evaluate.reference import compile_times
from engine.executors.room import Part, Room
from engine.session import events
from sol.bounds import native_class, pytorch_class
from sol.graph import OpGraph
from sol.hardware import Hardware

logger = logging.getLogger(__name__)


class Builds(Protocol):
    """Builds programs of one problem."""

    def build(self, candidate: Any) -> events.TrialCompiled:
        """Raises TrialError("compile")."""

    def prefetch(self, candidates: Sequence[Any]) -> None:
        """A hint: these may come next; build them ahead if there is a free core."""


class Timing(Protocol):
    """Times of one problem (paired_timing and predicted_timing in engine.evaluate.timing). All raise
    TrialError("measure")."""

    def baseline(self, name: str, beside: str = "") -> events.Baseline: ...

    def measure(self, candidate: Any, baseline: events.Baseline) -> events.TrialMeasured: ...

    def compare(self, candidates: Sequence[Any], baseline: events.Baseline) -> list[events.TrialMeasured]: ...

    def quick(self, candidate: Any, baseline: events.Baseline, family: str = "normal") -> float: ...


class Form(Protocol):
    """The handler of candidates of one form. `check`: only for kernels; the language checks programs."""

    def check(self, candidate: Any) -> events.TrialChecked: ...

    def build(self, candidate: Any) -> events.TrialCompiled: ...

    def validate(self, candidate: Any) -> events.TrialValidated: ...

    def measure(self, candidate: Any, baseline: events.Baseline) -> events.TrialMeasured: ...


@dataclass
class Programs:
    """The form `program`: built by a back end, validated in rounds, timed beside PyTorch."""

    builds: Builds
    rounds: Rounds
    timing: Timing

    def check(self, candidate: Any) -> events.TrialChecked:
        raise TypeError("a program is checked by dsl.check, before it is a candidate of a device")

    def build(self, candidate: Any) -> events.TrialCompiled:
        return self.builds.build(candidate)

    def validate(self, candidate: Any) -> events.TrialValidated:
        return self.rounds.validate(candidate)

    def measure(self, candidate: Any, baseline: events.Baseline) -> events.TrialMeasured:
        return self.timing.measure(candidate, baseline)


@dataclass
class Workbench:
    """A machine with one problem. `programs` handles the form `program`; `others`: handlers of other forms, by name;
    `compile_times`: the stored torch.compile times of this problem, None if none are taken."""

    programs: Programs
    close: Callable[[], None]
    compile_times: compile_times.Kept | None = None
    others: Mapping[str, Form] = field(default_factory=dict)


class Loaded(Protocol):
    """The processes of one problem before it is opened."""

    def close(self) -> None: ...


class Machine(Protocol):
    """The machine that runs candidates: a GPU of this machine, or the model of one. All calls block; `cancelled()` is
    polled so that a stop is prompt. `lanes` to `loads_apart`: as engine.devices.Device declares them. `room`: the
    memory that its sessions share; None if it is not counted."""

    name: str  # cuda | modelled:h200
    kind: str  # measured | predicted
    hardware: str  # name of a file in sol/hardware
    hw: Hardware
    lanes: int
    forms: tuple[str, ...]
    screens: bool
    builds_ahead: bool
    times_compiled: bool
    place: str
    loads_apart: bool
    room: Room | None

    def describe(self) -> dict: ...

    def warm(self, source_kind: str = "module") -> None:
        """Start what `open` needs, without waiting: called while a module is still being traced."""

    def build_ahead(self, source: Source) -> None:
        """A hint: a later problem needs this build. No request waits for it."""

    def need(self, problem: Problem) -> int:
        """Bytes of `room` that the problem's data takes at most, about."""

    def load(self, problem: Problem, cancelled: Callable[[], bool]) -> Loaded | None:
        """Start the problem's processes, without using the GPU's lane. Raises SessionRefused."""

    def open(self, problem: Problem, cancelled: Callable[[], bool], loaded: Loaded | None = None) -> Workbench:
        """The workbench of a problem, with what was loaded for it; None: load it now. Raises SessionRefused."""

    def close(self) -> None:
        """End what `warm` and `open` started for one session. What sessions share stays warm."""


class Evaluator(Device):
    """One problem at a time on one machine; the device of a session. Not for several threads."""

    def __init__(self, machine: Machine):
        self.machine = machine
        self.name, self.kind, self.hardware, self.hw = machine.name, machine.kind, machine.hardware, machine.hw
        self.lanes, self.forms = machine.lanes, machine.forms
        self.screens, self.builds_ahead = machine.screens, machine.builds_ahead
        self.times_compiled, self.place = machine.times_compiled, machine.place
        self.loads_apart = machine.loads_apart
        self.problem: Problem | None = None
        self.at_work = True  # from its creation or the first use after `close`, until `close`
        self._workbench: Workbench | None = None
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
            self._part = self.machine.room.part(self.machine.need(problem))
        if self._part.enter():
            return ""
        return f"this module takes about {gigabytes(self._part.need)}, {gigabytes(self.machine.room.free())} are free"

    def load(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        """Start the problem's processes, without using the GPU's lane. Raises SessionRefused."""
        self.at_work = True
        self._loaded = problem, self.machine.load(problem, cancelled)

    def open(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        """Prepare one problem. Raises SessionRefused."""
        if self._workbench is not None:
            self.close()
        self.at_work = True
        loaded = None
        if self._loaded is not None and self._loaded[0] is problem:
            (_, loaded), self._loaded = self._loaded, None  # the machine closes it if it fails
        self._workbench = self.machine.open(problem, cancelled, loaded)
        self.problem, self._cancelled = problem, cancelled

    def close(self) -> None:
        """End every process and drop all data of this problem. What sessions share stays warm."""
        workbench, self._workbench, self.problem = self._workbench, None, None
        loaded, self._loaded = self._loaded, None
        part, self._part = self._part, None
        try:
            if workbench is not None:
                workbench.close()
            if loaded is not None and loaded[1] is not None:
                loaded[1].close()
        finally:
            if part is not None:
                part.leave()
            self.machine.close()
            self.at_work = False

    @property
    def workbench(self) -> Workbench:
        if self._workbench is None:
            raise RuntimeError("no problem is open on this evaluator; call open first")
        return self._workbench

    def _form(self, candidate: Any) -> Form:
        if candidate.form == "program":
            return self.workbench.programs
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
        for name in names:
            try:
                yield programs.timing.baseline(name, first_baseline(self.problem.graph, classes))
            except TrialError as e:
                if name == "eager":
                    raise SessionRefused(e.code, e.reason) from None
                logger.warning("no baseline %s: %s", name, e.reason)
        if self.workbench.compile_times is not None:
            yield from self.workbench.compile_times.known(self._compiled_names(classes))

    def compiled(self, classes: Sequence[str]) -> Iterator[events.Baseline]:
        """torch.compile's times that `baselines` did not know: 20 s to minutes each, then stored for other sessions."""
        compile_times = self.workbench.compile_times
        if compile_times is None or self.problem.source_kind != "module":
            return  # a program without a module has nothing to compile
        for name in self._compiled_names(classes):
            if compile_times.read(name) is not None:
                continue
            try:
                yield self.baseline(name, first_baseline(self.problem.graph, classes))
            except TrialError as e:
                if self._cancelled():
                    raise
                logger.warning("no baseline %s: %s", name, e.reason)

    def baseline(self, name: str, beside: str = "") -> events.Baseline:
        """One of engine.evaluate.reference.baseline_cache.NAMES, timed now (and stored, if the device stores times), in
        alternation with the one `beside`. Raises TrialError("measure")."""
        timed = self.workbench.programs.timing.baseline(name, beside)
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
        """Raises TrialError("compile") with the compiler's output."""
        return self._form(candidate).build(candidate)

    def prefetch(self, candidates: Sequence[Any]) -> None:
        """A hint: these may come next; they are built ahead if a core is free."""
        self.workbench.programs.builds.prefetch([c for c in candidates if c.form == "program"])

    def await_build(self, candidate: Any) -> bool:
        """Build a program that is only screened; False if it cannot be built. Raises TrialError if it is cancelled."""
        try:
            self.build(candidate)
        except TrialError as e:
            if e.code == "cancelled":
                raise
            return False
        return True

    def validate(self, candidate: Any) -> events.TrialValidated:
        """Check the results over every round. Raises TrialError("validate") with numbers in the reason."""
        return self._form(candidate).validate(candidate)

    def first_round(self, candidate: Any) -> events.TrialValidated:
        """Check a program's result only in the first round, for studies of times, whose results are not used. Raises
        TrialError("validate")."""
        return self.workbench.programs.rounds.validate(candidate, 1)

    def measure(self, candidate: Any, baseline: events.Baseline) -> events.TrialMeasured:
        """The time in alternation with the baseline, and the evidence of the run; or a prediction. Raises
        TrialError("measure")."""
        measured = self._form(candidate).measure(candidate, baseline)
        if self._part is not None:
            self._part.settle()
        return measured

    def compare(self, candidates: Sequence[Any], baseline: events.Baseline) -> list[events.TrialMeasured]:
        """Several validated programs and the baseline in turns, in one run. Raises TrialError("measure")."""
        return self.workbench.programs.timing.compare(candidates, baseline)

    def quick_on(self, candidate: Any, baseline: events.Baseline, family: str) -> float:
        """Milliseconds of a few calls on inputs of a family, to measure the cost of a tripped guard. Raises
        TrialError("measure")."""
        return self.workbench.programs.timing.quick(candidate, baseline, family)

    def quick(self, candidates: Sequence[Any], baseline: events.Baseline) -> list[float | None]:
        """Milliseconds of a few calls of each, to choose which to try in full; None if it did not run. Nothing is
        verified here, so no time is a result. If `screens` is False, all are None."""
        return [self._quick(c, baseline) if self.screens else None for c in candidates]

    def _quick(self, candidate: Any, baseline: events.Baseline) -> float | None:
        try:
            return self.workbench.programs.timing.quick(candidate, baseline)
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
