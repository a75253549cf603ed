"""The contract between the engine and its observers: the typed, versioned events of a session.

A session is a list of events with `seq` 1, 2, 3, ... The engine yields them; the web process appends them to its log
and never changes one. Large texts (programs, generated code, compiler logs, graphs) are stored as blobs, named by the
SHA-256 of their UTF-8 bytes; an event carries only the name.

A time is a Measurement or a Prediction, in milliseconds. They are different types, so no code compares the two by
accident.

A trial passes proposed -> checked -> generated -> compiled -> validated -> measured -> judged, and may end at any step
with TrialFailed. A step that does not apply to the candidate's form is absent. Exactly one of TrialJudged, TrialUntimed
and TrialFailed ends a trial. TrialUntimed ends the trial of a raw kernel (form `kernel`) that has a verdict but no
time.

A strategy is a script (engine.strategies.api). `path` is the position of one of its verbs: `3` is the third, `3.1` the
first member of a Together. `digest` is the digest of the verb's request. `Advanced` records that the script received
the answer.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, ClassVar

from engine.session.event_base import Event, Measurement, Prediction, Time, blob_name
from engine.session.script_events import (
    Advanced,
    Answered,
    Asked,
    KeyReceived,
    KeyWanted,
    MemoryRead,
    MemoryWritten,
    Said,
    Shown,
)
from engine.session.trial_events import (
    TrialChecked,
    TrialCompiled,
    TrialFailed,
    TrialGenerated,
    TrialJudged,
    TrialMeasured,
    TrialProfiled,
    TrialProposed,
    TrialUntimed,
    TrialValidated,
)

# Version of the log's format. An engine reads logs of this version and older ones. Increase it when an engine of the
# previous version would fail to read, or would misread, what is written now.
VERSION = 1


@dataclass(frozen=True)
class SessionStarted(Event):
    """`device`: {name, kind: measured | predicted, hardware}; `budget`: {trials, eps, window}; `options`: of the
    strategy."""

    KIND: ClassVar[str] = "session.started"
    title: str
    source: str  # blob: the pasted text
    source_kind: str  # module | program
    device: dict[str, Any]
    strategy: str
    classes: list[str]  # precision classes allowed, e.g. ["tf32", "f16"]
    budget: dict[str, Any]
    seed: int = 0
    algebraic: bool = False  # whether a program that omits work, by algebra, may be the best
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress(Event):
    """What the engine is doing now, in words, for the status line. `step` wait | place: the session's work waits for
    its place on the machine, and has it again; these may repeat."""

    KIND: ClassVar[str] = "progress"
    text: str
    step: str = ""
    trial: int | None = None


@dataclass(frozen=True)
class Traced(Event):
    """The module's op graph (blob: sol.graph JSON). `title`: what the module computes, used if the session has no
    name. `note`: what a person should know of it, such as layers that compute something else in training."""

    KIND: ClassVar[str] = "traced"
    graph: str
    ops: int
    seconds: float
    title: str = ""
    note: str = ""


@dataclass(frozen=True)
class Reported(Event):
    """The SOL report (blob: sol.report JSON). `bounds`: class -> t_sol in ms; `summary`: one sentence; `hardware`:
    blob, the figures of the device that the search ranks by (sol.hardware.Hardware as JSON)."""

    KIND: ClassVar[str] = "reported"
    report: str
    bounds: dict[str, float]
    summary: str
    hardware: str = ""


@dataclass(frozen=True)
class Covered(Event):
    """A module of which only regions become programs. `regions`: [{number, words, ops, inputs, outputs, lines, limits:
    class -> t_sol in ms, share: {flops, bytes, time}}]; `uncovered`: the operations that stay in PyTorch, [{name, op,
    line, reason, why}], with their `share` (`why`: the reason without the operation's name and line; not in older
    logs); `text`: one sentence."""

    KIND: ClassVar[str] = "covered"
    regions: list[dict[str, Any]]
    uncovered: list[dict[str, Any]]
    share: dict[str, float]
    text: str


@dataclass(frozen=True)
class Noted(Event):
    """A remark of the strategy before its first trial, or about a time that was not taken. `code`: class_left_out (no
    program is written in the class `cls`) | no_program (none covers the module, so only the owner's kernels are tried)
    | form (why the candidates are programs, or that kernels get no time here) | start_from (a program of the module, or
    of its `region`, in class `cls`, for those who hand in candidates; `program`: its blob) | not_timed (the `baseline`
    of torch.compile has no time). `region`: 0 for the whole module, and in older logs."""

    KIND: ClassVar[str] = "noted"
    code: str
    text: str
    cls: str = ""
    program: str = ""
    region: int = 0
    baseline: str = ""


@dataclass(frozen=True)
class Baseline(Event):
    """A time of PyTorch. `name`: eager | eager_tf32 | eager_f16 | ...; `cls`: its precision class. `ratio`: its time
    over that of the baseline `beside`, alternated in one run, with its interval; None for the baseline that the others
    are alternated with, and in older logs."""

    KIND: ClassVar[str] = "baseline"
    name: str
    cls: str
    time: Time
    note: str = ""
    beside: str = ""
    ratio: float | None = None
    ratio_low: float | None = None
    ratio_high: float | None = None


@dataclass(frozen=True)
class Screened(Event):
    """Quick timings before `trial`, to choose among programs. They are unverified, and no time here is a result:
    `quick`: program (blob) -> ms, or None if it did not run."""

    KIND: ClassVar[str] = "screened"
    trial: int
    quick: dict[str, float | None]
    seconds: float
    path: str = ""
    digest: str = ""


@dataclass(frozen=True)
class Controlled(Event):
    """The engine received a command of the owner: pause | resume | stop | budget | try | profile. `data` of try:
    {program: blob, form, language, entry, cls, change, waits}; all but the first are optional. `change`: one line about
    the candidate. `waits`: paused, if the try begins only when the session resumes. Of profile: {trial}. Of stop:
    {idle_minutes} if no owner said it, but no candidate came for so long; {reported} if the session was started for its
    report alone."""

    KIND: ClassVar[str] = "controlled"
    action: str
    data: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Resumed(Event):
    """An engine was lost, and another continued the session at this point."""

    KIND: ClassVar[str] = "resumed"
    text: str


@dataclass(frozen=True)
class SessionEnded(Event):
    """`state`: done | stopped | refused | failed. `best`: class -> trial number, for classes in which a program was
    faster than PyTorch. `code`, the reason: budget_used | search_over | stopped | idle | reported | engine_error |
    that of a refusal; "" for done and stopped in older logs. `closed`: the classes whose search ended by the stop
    rules, [{cls, and the fields of sol.budget.Stop}]. `covered`: what a refused module may hold, [{kind, names}].
    `untried`: how many of the owner's candidates were not tried; `reason` says so too. `spent`: seconds by what the
    session did and by the place that it waited for (engine.session.script.spent), since it was resumed last; {} in
    older logs."""

    KIND: ClassVar[str] = "session.ended"
    state: str
    reason: str
    best: dict[str, int]
    trials: int
    seconds: float
    code: str = ""
    line: int | None = None  # of the pasted text, if the reason has a position
    closed: list[dict[str, Any]] = field(default_factory=list)
    covered: list[dict[str, str]] = field(default_factory=list)
    untried: int = 0
    spent: dict[str, float] = field(default_factory=dict)


KINDS: dict[str, type[Event]] = {c.KIND: c for c in Event.__subclasses__()}
_TIMES = {"measured": Measurement, "predicted": Prediction}


def encode(event: Event) -> dict[str, Any]:
    """The event's data as JSON-ready values, without its kind and time."""
    return dataclasses.asdict(event)


ENDS = (TrialJudged, TrialUntimed, TrialFailed)  # exactly one of them ends a trial


def decode(kind: str, data: dict[str, Any]) -> Event:
    """The typed event of a log row. Raises only ValueError: for an unknown kind, a missing or unknown field, or data
    that is not an object."""
    cls = KINDS.get(kind)
    if cls is None:
        raise ValueError(f"unknown event kind {kind!r}: this log is from another version")
    if not isinstance(data, dict):
        raise ValueError(f"{kind}: its data is not an object")
    values = dict(data)
    time = values.get("time")
    if isinstance(time, dict):
        if time.get("kind") not in _TIMES:
            raise ValueError(f"{kind}: its time is neither measured nor predicted")
        values["time"] = _built(_TIMES[time["kind"]], time, f"{kind}: its time")
    return _built(cls, values, kind)


def _built(cls: type, values: dict[str, Any], what: str) -> Any:
    """An object of these fields. Raises ValueError that names the fields which are missing or unknown."""
    fields = dataclasses.fields(cls)
    needed = {f.name for f in fields if f.default is f.default_factory is dataclasses.MISSING}
    if unknown := set(values) - {f.name for f in fields}:
        raise ValueError(f"{what} has unknown fields {', '.join(sorted(unknown))}")
    if missing := needed - set(values):
        raise ValueError(f"{what} lacks {', '.join(sorted(missing))}")
    return cls(**values)


__all__ = [
    "ENDS", "KINDS", "VERSION", "Advanced", "Answered", "Asked", "Baseline", "Controlled", "Covered", "Event",
    "KeyReceived", "KeyWanted", "Measurement", "MemoryRead", "MemoryWritten", "Prediction", "Progress", "Reported",
    "Resumed", "Said", "Screened", "SessionEnded", "SessionStarted", "Shown", "Time", "Traced", "TrialChecked",
    "TrialCompiled", "TrialFailed", "TrialGenerated", "TrialJudged", "TrialMeasured", "TrialProfiled", "TrialProposed",
    "TrialUntimed", "TrialValidated", "blob_name", "decode", "encode",
]  # fmt: skip
