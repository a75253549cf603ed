"""What an evaluator asks of the machine that runs candidates, and of its handlers of one problem."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dsl.lower import Source
from engine.devices import Problem
from engine.evaluate.correctness.verification import Rounds
from engine.evaluate.reference import compile_times
from engine.executors.room import Room
from engine.session import events
from sol.hardware import Hardware


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


class Apart(Protocol):
    """A second process of the module, which compiles while the first one is searched with
    (engine.evaluate.timing.compiled_apart.CompiledApart)."""

    wanted: bool

    def begin(self, name: str, seconds: float | None, paused: Callable[[], bool]) -> None: ...

    def compile(self, name: str, seconds: float | None) -> bool: ...

    def holds(self, name: str) -> bool: ...

    def baseline(self, name: str, beside: str) -> events.Baseline | None: ...

    def close(self) -> None: ...


@dataclass
class Workbench:
    """A machine with one problem. `programs` handles the form `program`; `others`: handlers of other forms, by name;
    `compile_times`: the stored torch.compile times of this problem, None if none are taken (else `programs.timing` is a
    PairedTiming, which compiles). `trim(hard)`: give back the GPU's memory that no later request needs; with `hard`,
    also what can be made again. `compiled_apart`: makes a second process of the module, not yet started; None if there
    is no module, or a large one."""

    programs: Programs
    close: Callable[[], None]
    compile_times: compile_times.Kept | None = None
    others: Mapping[str, Form] = field(default_factory=dict)
    trim: Callable[[bool], None] = lambda hard: None
    compiled_apart: Callable[[], Apart] | None = None


class Loaded(Protocol):
    """The processes of one problem before it is opened."""

    def close(self) -> None: ...


class Machine(Protocol):
    """The machine that runs candidates: a GPU of this machine, or the model of one. All calls block; `cancelled()` is
    polled so that a stop is prompt. `lanes` to `compiles_rest`: as engine.devices.Device declares them. `room`: the
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
    compiles_rest: bool
    room: Room | None

    def describe(self) -> dict: ...

    def warm(self, source_kind: str = "module") -> None:
        """Start what `open` needs, without waiting: called while a module is still being traced."""

    def build_ahead(self, source: Source) -> None:
        """A hint: a later problem needs this build. No request waits for it."""

    def need(self, problem: Problem) -> tuple[int, int]:
        """Bytes of `room` that the problem's data takes at most, and between its turns, about."""

    def load(self, problem: Problem, cancelled: Callable[[], bool]) -> Loaded | None:
        """Start the problem's processes, without using the GPU's lane. Raises SessionRefused."""

    def open(self, problem: Problem, cancelled: Callable[[], bool], loaded: Loaded | None = None) -> Workbench:
        """The workbench of a problem, with what was loaded for it; None: load it now. Raises SessionRefused."""

    def close(self) -> None:
        """End what `warm` and `open` started for one session. What sessions share stays warm."""
