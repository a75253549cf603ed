"""The events of a trial, from its proposal to its end (engine.session.events says in which order), and its profile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

from engine.session.event_base import Event, Time


@dataclass(frozen=True)
class TrialProposed(Event):
    """`program`: blob, the candidate's text as proposed. `change`: one line, the difference from the parent; `why`: one
    line. `form`: program | kernel; for a kernel, `language` is cuda | python and `entry` is the function or class that
    the judge calls. `path`, `digest`: of the strategy's verb; `request`: for an owner's trial, the number of the `try`
    in the log (from 1; None in older logs, whose tries ran in order). `by`: strategy | owner | engine (the session's
    own last trials, which no budget counts). `rest`: inductor, if what stays PyTorch beside the programs is compiled.

    `structure`: the name of the program's structure among those of the strategy; `settings`: the clauses of its
    configuration in one line, "" if every choice is left to the compiler. Both are "" for other programs and in older
    logs.
    """

    KIND: ClassVar[str] = "trial.proposed"
    trial: int
    cls: str
    program: str
    backend: str
    change: str
    why: str
    parent: int | None = None
    predicted_ms: float | None = None
    by: str = "strategy"
    roof: str = ""  # the class whose limit applies, if it is another: f16 for a guarded program in tf32
    path: str = ""
    digest: str = ""
    form: str = "program"
    language: str = ""
    entry: str = ""
    request: int | None = None
    structure: str = ""
    settings: str = ""
    rest: str = ""


@dataclass(frozen=True)
class TrialChecked(Event):
    """`resolved`: blob, the program with every choice made; for a kernel, its text. `stages`: the time by stage that
    the attainable model predicts, each with the fields of a sol.attainable.StageTime; `tried`: the report's actions
    that the program uses (sol.lever_check). `evidence`: for a kernel, the findings in its text, as in TrialJudged."""

    KIND: ClassVar[str] = "trial.checked"
    trial: int
    resolved: str
    seconds: float
    stages: list[dict[str, Any]] = field(default_factory=list)
    tried: list[str] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class TrialGenerated(Event):
    """`sources`: back end -> {text: blob, language, lines, line_map}; `refused`: back end -> {code, message}.

    `inputs`: the program's parameters as tensors of the traced graph, [{name, tensor, shape, transposed}], [] in older
    logs; `region`: the program's region, 0 for the whole module and in older logs.
    """

    KIND: ClassVar[str] = "trial.generated"
    trial: int
    sources: dict[str, dict[str, Any]]
    refused: dict[str, dict[str, str]]
    seconds: float
    inputs: list[dict[str, Any]] = field(default_factory=list)
    region: int = 0


@dataclass(frozen=True)
class TrialCompiled(Event):
    """`how`: machine code | host check | not compiled | loaded (a Python kernel, in its confined process). `resources`:
    kernel resources, or None if unknown."""

    KIND: ClassVar[str] = "trial.compiled"
    trial: int
    backend: str
    how: str
    seconds: float
    cached: bool = False
    resources: list[dict[str, Any]] | None = None  # [{kernel, registers, shared_bytes, spill_bytes, stage, ..}]
    note: str = ""


@dataclass(frozen=True)
class TrialValidated(Event):
    """Worst relative error over all rounds against the float64 reference, and its bound.

    `tolerance`: the bound on that error; `bound`: the source of the bound, in words, if it is not the class's
    (engine.evaluate.correctness.tolerance); "" in older logs, whose `tolerance` is always the class's. `checks`:
    [{family, seed, error, max_error, pytorch_error}]; `scope`: what ran where, in words. `evidence`: for a kernel, the
    findings of its rounds, as in TrialJudged.
    """

    KIND: ClassVar[str] = "trial.validated"
    trial: int
    error: float
    max_error: float
    tolerance: float
    checks: list[dict[str, Any]]
    scope: str
    bound: str = ""
    evidence: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class TrialMeasured(Event):
    """`ratio`: baseline time over this time, median of paired ratios (or ratio of predictions), with interval.

    `checks`: what the run shows, [{name, verdict, said}] (engine.evaluate.integrity.trial), of a guard that tripped
    with `ranges`, {result: [least, greatest magnitude]}; [] for a prediction, where nothing ran on the device. `part`:
    for a module with regions, whose time and ratio are always the whole module's: {region, region_ms, programs: the
    number of regions that run as programs, covered_ms: those programs alone, region_eager_ms: PyTorch in the class on
    the region's operations alone; beside: the trials whose programs ran in the other regions; graph: whether the whole
    call was one CUDA graph, whose inputs and results are copied; rest: inductor, if what stays PyTorch was compiled;
    the last four are not in older logs}.
    """

    KIND: ClassVar[str] = "trial.measured"
    trial: int
    time: Time
    baseline: str
    baseline_ms: float
    ratio: float
    ratio_low: float | None = None
    ratio_high: float | None = None
    checks: list[dict[str, Any]] = field(default_factory=list)
    part: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class TrialJudged(Event):
    """`verdict`: clean | minor | gaming | library only, the worst of `evidence`, [{name, verdict, said}] (with `line`
    if it has a position in the candidate's text): the checks of its run, the class of its products, the limit. `best`:
    the trial is the best of its class so far, is faster than PyTorch in that class, counts (clean or minor), and does
    all of the module's work or is allowed to omit some. `standing`, the result for the search: best | slower (than the
    best so far, or than PyTorch) | algebraic (omits work, which is not allowed) | flagged (the verdict does not count);
    "" in older logs."""

    KIND: ClassVar[str] = "trial.judged"
    trial: int
    verdict: str
    cls: str
    kind: str  # measured | predicted
    ms: float
    speedup: float
    baseline: str
    gap: float  # time / t_sol of its class
    sol_score: float
    best: bool
    text: str
    evidence: list[dict[str, Any]] = field(default_factory=list)
    algebraic: str = ""  # the work of the module that the program omits, in words
    standing: str = ""


@dataclass(frozen=True)
class TrialUntimed(Event):
    """A kernel's trial ends with a verdict and no time, so it is never the best. `verdict`: clean | minor | library
    only | gaming | unverified (its results were not checked), with its `evidence` as in TrialJudged. `code`, why there
    is no time: no_prediction (the kernel is right, and no model predicts raw code) | needs_gpu | no_compiler |
    slow_start (the machine is busy) | inconclusive (a trivial answer passes too) | gaming (a trick was found). `step`:
    the step that did not run."""

    KIND: ClassVar[str] = "trial.untimed"
    trial: int
    verdict: str
    cls: str
    step: str
    code: str
    text: str
    evidence: list[dict[str, Any]] = field(default_factory=list)


@dataclass(frozen=True)
class TrialFailed(Event):
    """`step`: check | generate | compile | validate | measure. `reason`: for a person; `detail`: blob or None.
    `diagnostics`: for a rejected text, [{code, message, line, column, end_line, end_column, help}], from 1, the end
    exclusive. `evidence`: for a kernel, as in TrialJudged; a line's verdict may be `wrong`. `cause`, who ended it:
    program | run (before anything was known of the program) | owner; "" in older logs, where the code tells it
    (engine.session.fold.view.cause_of)."""

    KIND: ClassVar[str] = "trial.failed"
    trial: int
    step: str
    code: str
    reason: str
    detail: str | None = None
    diagnostics: list[dict[str, Any]] = field(default_factory=list)
    evidence: list[dict[str, Any]] = field(default_factory=list)
    cause: str = ""


@dataclass(frozen=True)
class TrialProfiled(Event):
    """The answer to the owner's command `profile`, after the trial's end. `request`: its number among those commands in
    the log (from 1). `source` of `text` (blob, for a person): profiler (it ran on the device) | model (the compiler's
    resources and the model of the GPU). `refusal`: "" or why there is no text: unknown_trial | no_time | ended (the
    session ended before) | a code of engine.strategies.api.Reply; `reason`: the same for a person; `counts`: as
    in Reply."""

    KIND: ClassVar[str] = "trial.profiled"
    trial: int
    request: int
    source: str = ""
    text: str = ""
    refusal: str = ""
    reason: str = ""
    seconds: float = 0.0
    counts: dict[str, float] = field(default_factory=dict)
