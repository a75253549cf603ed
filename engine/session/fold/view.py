"""A session's log as typed data: the view that `engine.session.fold.reduce` folds from the events.

The fields are read by engine.session.fold.readers. Times of steps are in milliseconds, `t` is seconds since the epoch
at the engine.

The page's counterpart is static/js/session/view.js, with the same names; tests/browser/test_fold.py compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from engine.session.fold.readers import Object, whole

STEPS = ("proposed", "checked", "generated", "compiled", "validated", "measured", "judged")
COUNTING = ("clean", "minor")  # verdicts of a trial whose time is a result
STOPPED = ("stopped", "cancelled")
# Codes of trials that ended before anything was known of their program: the engine, the device or the limits ended
# them.
UNDECIDED = (
    "oracle", "worker_lost", "gpu_lost", "timeout", "engine_error", "memory_limit", "gpu_memory",
    "run_failed",
)  # fmt: skip
UNDECIDED_PREFIXES = ("reference_", "oracle_", "garbled")


def cause_of(code: str) -> str:
    """Who ended a failed trial, by its code: owner | run (before anything was known of the program) | program."""
    if code in STOPPED:
        return "owner"
    return "run" if code in UNDECIDED or code.startswith(UNDECIDED_PREFIXES) else "program"


# ---- the parts of a view ----


@dataclass
class Progress:
    """What the engine is doing now, in words."""

    text: str
    step: str
    trial: int | None
    t: float | None


@dataclass
class Baseline:
    """PyTorch's time in a class. `name`: eager | eager_tf32 | compile_f16 | ...; `kind`: measured | predicted."""

    name: str
    cls: str
    note: str
    time: Object
    ms: float | None
    kind: str


@dataclass
class Region:
    """A part of a module that becomes a program. `limits`: class -> t_sol in ms; `share`: of flops, bytes and time."""

    number: int | None
    words: str
    ops: list[str]
    inputs: list[str]
    outputs: list[str]
    lines: list[int]
    limits: dict[str, float]
    share: dict[str, float]


@dataclass
class Uncovered:
    """An operation that stays in PyTorch. `reason`: a sentence; `why`: the same without the operation's name and line,
    "" in older logs."""

    name: str
    op: str
    line: int | None
    reason: str
    why: str


@dataclass
class Coverage:
    """A module of which only regions become programs. `share`: what stays in PyTorch, of flops, bytes and time."""

    regions: list[Region]
    uncovered: list[Uncovered]
    share: dict[str, float]
    text: str

    def limits(self, region: int) -> dict[str, float]:
        """Class -> t_sol in ms of a region; {} of one that does not exist."""
        return next((r.limits for r in self.regions if r.number == region), {})


@dataclass
class Measured:
    """The time of a trial, measured or predicted. `part`: set if the trial is of a region of a module."""

    time: Object
    baseline: str
    baseline_ms: float | None
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    checks: list[Object]
    part: Object
    ms: float | None
    kind: str

    @property
    def region(self) -> int | None:
        return whole(self.part.get("region"))


@dataclass
class Judged:
    """The verdict on a trial. `best`: as the engine marked it; `View.best` gives the current best. `standing`: the code
    of what the verdict means for the search (engine.session.events.TrialJudged), "" in older logs."""

    verdict: str
    cls: str
    kind: str
    ms: float | None
    speedup: float | None
    baseline: str
    gap: float | None
    sol_score: float | None
    best: bool
    standing: str
    text: str
    evidence: list[Object]
    algebraic: str

    @property
    def counts(self) -> bool:
        return self.verdict in COUNTING


@dataclass
class Failed:
    """Why a trial ended early. `cause`: program | run | owner (`cause_of`)."""

    step: str
    code: str
    cause: str
    reason: str
    detail: str
    diagnostics: list[Object]
    evidence: list[Object]


@dataclass
class Untimed:
    """A raw kernel's end with a verdict and no time. `step`: the step that did not run; `code`: why there is no time
    (engine.session.events.TrialUntimed)."""

    verdict: str
    cls: str
    step: str
    code: str
    text: str
    evidence: list[Object]

    @property
    def outcome(self) -> str:
        """verified | unverified | flagged"""
        if self.verdict in COUNTING:
            return "verified"
        return "unverified" if self.verdict == "unverified" else "flagged"


@dataclass
class Profile:
    """A trial's profile, on the owner's request. `state`: asked (it is being made) | ready | refused; `asked`: the time
    of the last request; the other fields as in engine.session.events.TrialProfiled."""

    state: str
    asked: float | None
    t: float | None = None
    source: str = ""
    text: str = ""
    refusal: str = ""
    reason: str = ""
    seconds: float | None = None


@dataclass
class Trial:
    """One trial. `step`: the last of STEPS that it reached, "" before any; `steps`: step -> its time; `inputs`: the
    program's parameters as tensors of the graph; `part_of`: the region that its code was generated for, 0 for the whole
    module; `form`: program ("" in older logs) | kernel, with its `language` and `entry`; `by`: strategy | owner |
    engine; `rest`: inductor, if what stays PyTorch is compiled."""

    number: int
    cls: str = ""
    roof: str = ""
    backend: str = ""
    program: str = ""
    change: str = ""
    why: str = ""
    parent: int | None = None
    predicted_ms: float | None = None
    by: str = ""
    structure: str = ""
    settings: str = ""
    step: str = ""
    steps: dict[str, float | None] = field(default_factory=dict)
    resolved: str = ""
    stages: list[Object] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    sources: Object = field(default_factory=dict)
    refused: Object = field(default_factory=dict)
    inputs: list[Object] = field(default_factory=list)
    part_of: int | None = None
    form: str = ""
    language: str = ""
    entry: str = ""
    rest: str = ""
    compiled: Object | None = None
    validated: Object | None = None
    measured: Measured | None = None
    judged: Judged | None = None
    untimed: Untimed | None = None
    failed: Failed | None = None
    profile: Profile | None = None

    @property
    def of_search(self) -> bool:
        """Return True if the strategy made it, and not the owner, or the session itself after the search."""
        return self.by not in ("owner", "engine")

    @property
    def end(self) -> Judged | Untimed | Failed | None:
        """The event that ended it; None while it runs."""
        ends = (self.judged, self.untimed, self.failed)
        return next((end for end in ends if end is not None), None)

    @property
    def ended(self) -> bool:
        return self.end is not None

    @property
    def timed(self) -> bool:
        """Return True if its verdict came with a time."""
        return self.judged is not None and self.judged.ms is not None

    @property
    def outcome(self) -> str:
        """running | counted | flagged | verified | unverified (both of kernels without a time) | failed | undecided |
        stopped"""
        if self.untimed is not None:
            return self.untimed.outcome
        if self.judged is not None:
            return "counted" if self.judged.counts else "flagged"
        if self.failed is not None:
            return {"run": "undecided", "owner": "stopped"}.get(self.failed.cause, "failed")
        return "running"

    @property
    def region(self) -> int | None:
        """The region of the program; None for the whole module, or while it is unknown. (Older logs give it only with
        the time.)"""
        return (self.measured.region if self.measured is not None else None) or self.part_of or None


@dataclass
class Stretch:
    """A part of the session whose headlines have one baseline: the first one's trial, the last one's speedup."""

    trial: int
    baseline: str
    speedup: float


@dataclass
class Control:
    """A command of the owner. `action`: pause | resume | stop | budget | try | profile."""

    action: str
    data: Object
    t: float | None


@dataclass
class Screened:
    """Quick timings before `trial`, to choose among programs; `ran`: how many of them ran."""

    trial: int | None
    ran: int
    seconds: float | None


@dataclass
class Resumed:
    text: str
    t: float | None


@dataclass
class Key:
    """The key of a visitor's endpoint that the session waits for (engine.session.events.KeyWanted)."""

    endpoint: str
    model: str
    claim: int | None
    until: float | None
    again: bool
    text: str


@dataclass
class Note:
    """A remark of the strategy before its first trial, with a code (engine.session.events.Noted)."""

    code: str
    text: str
    cls: str


@dataclass
class Closed:
    """Why the search of a class ended. `code`: near_limit | stalled (sol.budget.Stop)."""

    cls: str
    code: str
    best_ms: float | None
    limit_ms: float | None
    eps: float | None
    trials: int | None


@dataclass
class End:
    """How a session ended. `state`: done | stopped | refused | failed; `code`: the reason, "" in older logs; `closed`:
    the classes whose search ended by the stop rules; `covered`: what a refused module may hold, [{kind, names}];
    `untried`: the owner's candidates that were not tried, None in older logs; `spent`: where its seconds went."""

    state: str
    code: str
    reason: str
    line: int | None
    seconds: float | None
    trials: int | None
    untried: int | None
    spent: dict[str, float]
    closed: list[Closed]
    covered: list[Object]
    t: float | None


@dataclass
class Warning:
    """Events that the fold could not apply: `code` unknown_kind | unreadable | not_proposed | repeated | after_end,
    their number, and the first of them."""

    code: str
    kind: str
    seq: int
    count: int = 1


__all__ = [
    "COUNTING", "STEPS", "Baseline", "Closed", "Control", "Coverage", "End", "Failed", "Judged", "Key", "Measured",
    "Note", "Profile", "Progress", "Region", "Resumed", "Screened", "Stretch", "Trial", "Uncovered", "Warning",
    "cause_of",
]  # fmt: skip
