"""Where a trial is built, validated and timed: `cuda` measures, `modelled` predicts and says so.

A device is opened for one problem and then builds, validates and times Candidates, trial by trial. Every answer is the
typed event of that step (engine.session.events documents its fields), so the session only forwards it. A candidate's
failure is a TrialError with a reason for a person; it ends the trial, never the session.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol

from dsl.ir import Program
from dsl.lower import Refusal, Source
from engine.session import events
from engine.words import with_covered
from sol.graph import OpGraph

NO_ROOM = ("out_of_memory", "gpu_memory")  # codes of errors: the GPU's memory was too small


class TrialError(Exception):
    """A candidate failed at `step` (check | generate | compile | validate | measure).

    `code` is stable (e.g. "wrong_result", "illegal_address", "timeout", "compile_failed"), `reason` one sentence
    for a person, `detail` an optional long text (a compiler log) that becomes a blob.
    """

    def __init__(self, step: str, code: str, reason: str, detail: str | None = None):
        super().__init__(reason)
        self.step, self.code, self.reason, self.detail = step, code, reason, detail


class SessionRefused(Exception):
    """The problem itself cannot be optimised: one clear message, a stable code and, if known, the line.

    `why`: for an operation without a rule, the reason without the operation's name and line; `covered`: what a module
    may hold, by kind, [(kind, names)], if that helps.
    """

    def __init__(
        self, code: str, reason: str, line: int | None = None, why: str = "",
        covered: Sequence[tuple[str, str]] = (),
    ):  # fmt: skip
        super().__init__(reason)
        self.code, self.reason, self.line = code, reason, line
        self.why, self.covered = why, tuple(covered)

    @property
    def kinds(self) -> list[dict[str, str]]:
        """`covered` as in events.SessionEnded."""
        return [{"kind": kind, "names": names} for kind, names in self.covered]

    @property
    def words(self) -> str:
        """The reason and the covered operations, for a terminal."""
        return with_covered(self.reason, self.covered)


@dataclass(frozen=True)
class Binding:
    """A program parameter (or result) and the graph tensor it stands for, seen as `shape`.

    `shape` is the program's; it has as many elements as the tensor, in the same order. `transposed`: the program sees
    the tensor's last two axes swapped. (This is rare: a weight that the module stores transposed is bound in its memory
    order, and the program writes `.T`.)
    """

    name: str
    tensor: str
    shape: tuple[int, ...]
    transposed: bool = False


@dataclass(frozen=True)
class Problem:
    """The subject of a session: the pasted text, its op graph, and the run's seed. `source_kind` module | program."""

    source: str
    source_kind: str
    graph: OpGraph
    seed: int = 0


@dataclass(frozen=True)
class Placed:
    """A program in a module: the operations of the module's graph that it replaces, and its parameters and results as
    tensors of that graph."""

    ops: tuple[str, ...]
    program: Program
    text: str
    backend: str
    source: Source
    inputs: tuple[Binding, ...]
    outputs: tuple[Binding, ...]


@dataclass(frozen=True)
class Candidate:
    """A checked, resolved, generated program with the back end of this trial.

    `placed`: for a module with regions, this program (first) and those of the other regions; every result of such a
    trial is about the whole module, whose other operations run in PyTorch. (): the program is the whole module. `rest`:
    inductor, if PyTorch's compiler makes calls of those operations; "": they run one by one.
    """

    trial: int
    program: Program  # resolved: no auto left
    text: str  # canonical text of the resolved program
    cls: str  # its precision class: f32 | tf32 | f16 | bf16 | fp8
    backend: str  # cute | cpp
    sources: dict[str, Source]
    inputs: tuple[Binding, ...]  # program parameters, in order
    outputs: tuple[Binding, ...]  # program results, in order
    refused: dict[str, Refusal] = field(default_factory=dict)
    placed: tuple[Placed, ...] = ()
    region: int = 0
    rest: str = ""
    form: ClassVar[str] = "program"


class Device(Protocol):
    """One place to run trials. All calls block; `cancelled()` is polled so that a stop is prompt.

    Optional abilities are declared: `lanes`, how many trials it runs at once (a lane calls it from one thread);
    `forms`, the forms of candidates that it runs (engine.strategies.api); `screens`: `quick` takes times;
    `builds_ahead`: `prefetch` does something; `times_compiled`: `compile` and `compiled` take torch.compile's times;
    `place`: where everything but a build runs (engine.executors): core, a GPU's lane, or "" for nowhere in particular;
    `loads_apart`: `load` does something, and needs no lane; `compiles_rest`: it runs candidates with `rest`.
    """

    name: str  # cuda | modelled:h200
    kind: str  # measured | predicted
    hardware: str  # name of a file in sol/hardware
    lanes: int = 1
    forms: tuple[str, ...] = ("program",)
    screens: bool = False
    builds_ahead: bool = False
    times_compiled: bool = False
    place: str = ""
    loads_apart: bool = False
    compiles_rest: bool = False

    def describe(self) -> dict: ...

    def warm(self, source_kind: str = "module") -> None:
        """Start what `open` needs, without waiting: called while a module is still being traced."""
        return

    def admit(self, problem: Problem) -> str:
        """What the problem's data waits for, in words; empty once it has its part of the GPU's memory."""
        return ""

    def load(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        """The part of `open` that takes seconds and needs no lane: start processes, load the module in its sandbox.
        Raises SessionRefused."""
        return

    def open(self, problem: Problem, cancelled: Callable[[], bool]) -> None:
        """Prepare one problem, with what `load` has or else from the start. Raises SessionRefused."""

    def baselines(self, classes: list[str]) -> Iterator[events.Baseline]:
        """PyTorch's own times, at least one for each allowed class."""

    def check(self, candidate: Any) -> events.TrialChecked:
        """Findings in the text of a kernel (engine.strategies.api.KernelTrial). Raises TrialError("check", ...)."""

    def build(self, candidate: Candidate) -> events.TrialCompiled:
        """Raises TrialError("compile", ...)."""

    def validate(self, candidate: Candidate) -> events.TrialValidated:
        """Raises TrialError("validate", ...) for a wrong result, with numbers in the reason."""

    def measure(self, candidate: Candidate, baseline: events.Baseline) -> events.TrialMeasured:
        """Times the candidate in alternation with the baseline (or predicts it)."""

    def room_later(self) -> Callable[[], bool | None] | None:
        """Of a request that had too little of the GPU's memory, though other sessions gave back all they could: what
        returns True once it is worth another try. None if nobody else uses it."""
        return None

    def prefetch(self, candidates: list[Candidate]) -> None:
        """A hint: these may come next; build them ahead if there is a free core."""
        return

    def await_build(self, candidate: Candidate) -> bool:
        """Wait until a candidate that `prefetch` named is built, before `quick`; False if it cannot be built."""
        return True

    def quick(self, candidates: list[Candidate], baseline: events.Baseline) -> list[float | None]:
        """Milliseconds of a few calls of each, None if it did not run. Nothing is verified."""
        return [None] * len(candidates)

    def compile_names(self, classes: Sequence[str], ways: Sequence[str] = ()) -> list[str]:
        """Which of torch.compile's baselines to time: `ways`, or else both modes in each class."""
        return []

    def compile_ahead(
        self, name: str, seconds: float | None = None, paused: Callable[[], bool] = lambda: False
    ) -> None:  # fmt: skip
        """A hint: `compile` will be asked for this one when the search is over; begin it beside the search, without
        waiting, if that disturbs nothing."""
        return

    def compile(self, name: str, seconds: float | None = None) -> None:
        """Compile the module for one of them, for at most so many seconds. It needs no lane. Raises
        TrialError("measure", ...)."""

    def compiled(self, name: str, classes: Sequence[str]) -> events.Baseline | None:
        """The time of one of them, beside the baseline of the first class. None if the process that compiled it was
        lost: compile it again. Raises TrialError("measure", ...)."""
        raise TrialError("measure", "not_timed", "this device times no torch.compile")

    def end_compiling(self) -> None:
        """All of torch.compile's times are taken: end what `compile_ahead` started. It needs no lane."""
        return

    def close(self) -> None:
        """End every process and remove every file of this problem."""
