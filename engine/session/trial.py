"""The one trial pipeline: proposed -> checked -> generated -> compiled -> validated -> measured -> judged.

Candidates of every strategy and of the owner pass it step by step, and a trial may end at each step with a reason. A
program passes every step. A kernel is not generated; its text is examined instead of checked, and it may end with a
verdict and no time.
A step that the log already holds (of a lost engine's session) is not logged again. It is executed again only if a later
step needs its state in the device.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.diagnostics import CONSEQUENCES, Diagnostic
from dsl.ir import Program
from dsl.printer import to_text
from dsl.resolve import resolve
from engine import devices
from engine.devices import NO_ROOM, Device, Placed, TrialError
from engine.evaluate.integrity.kernel_evidence import verdict as verdict_of
from engine.evaluate.integrity.kernel_trial import NO_PREDICTION, KernelFailed, Untimed
from engine.evaluate.integrity.trial import GAMING, LIBRARY
from engine.session import events
from engine.session.fold.view import cause_of
from engine.session.journal import Journal
from engine.session.script.steps import Steps, Wait, Work
from engine.session.verdict import inherited, judge, judge_kernel, roof
from engine.strategies.api import Candidate, Finished, KernelTrial
from engine.strategies.problem import Prepared
from sol import lever_check
from sol.attainable import predict
from sol.bounds import t_sol
from sol.hardware import Hardware, HardwareError

# One of our processes ended before it judged, which says little about the program: a fresh process repeats the step. (A
# program that ends the GPU's worker ends the second worker too. A CUDA error has its own code.)
LOST = ("reference_crashed", "oracle_died", "worker_lost")


class Rejected(TrialError):
    """A program's text fails its checks. `diagnostics`: every mistake."""

    def __init__(self, code: str, reason: str, detail: str, diagnostics: Sequence[Diagnostic]):
        super().__init__("check", code, reason, detail)
        self.diagnostics = tuple(diagnostics)


@dataclass(frozen=True)
class Proposal:
    """A candidate that becomes a trial. `by`: strategy | owner | engine; `path`, `digest`: of the strategy's verb;
    `request`: for an owner's trial, the number of the `try` in the log."""

    candidate: Candidate
    change: str = ""
    why: str = ""
    parent: int | None = None
    predicted_ms: float | None = None
    by: str = "strategy"
    path: str = ""
    digest: str = ""
    request: int | None = None
    structure: str = ""
    settings: str = ""

    def event(self, number: int) -> events.TrialProposed:
        c, cls = self.candidate, roof(self.candidate)
        return events.TrialProposed(
            number, c.cls, events.blob_name(c.text), c.backend, self.change, self.why, self.parent, self.predicted_ms,
            self.by, cls if cls != c.cls else "", self.path, self.digest, c.form, c.language, c.entry, self.request,
            self.structure, self.settings, c.rest,
        )  # fmt: skip


@dataclass(frozen=True)
class Incumbent:
    """What a trial is compared with, fixed at its proposal. `best_ms`: of its class (`best_time`); `beside`: the
    programs of the other regions of the module."""

    best_ms: float | None = None
    beside: tuple[Finished, ...] = ()


@dataclass
class Context:
    """What the trials of one session share. `limits`: class -> t_sol in ms; `baselines`: class -> its baseline;
    `algebraic`: whether a program that omits work may be the best."""

    device: Device
    problem: Prepared
    hardware: Hardware
    limits: dict[str, float]
    baselines: dict[str, events.Baseline]
    journal: Journal
    algebraic: bool = False
    generated: dict[tuple[str, str], Placed] = field(default_factory=dict)

    def limit(self, cls: str) -> float:
        """t_sol in ms of any class. A kernel may be in a class that the session does not search."""
        return self.limits[cls] if cls in self.limits else t_sol(self.problem.graph, self.hardware, cls)

    @property
    def sms(self) -> int:
        return self.hardware.sms


def seen(resolved: Program, hardware: Hardware) -> tuple[list[dict[str, Any]], list[str]]:
    """Values that pages draw without analysing the program: its stages' predicted times (none if the device has no
    units of a stage's type), and the report's actions that it uses."""
    try:
        stages = [asdict(s) for s in predict(resolved, hardware).stages]
    except HardwareError:
        stages = []
    return stages, sorted(lever_check.tried(resolved, hardware.sms))


def candidate(number: int, tried: Candidate, beside: tuple[Finished, ...], ctx: Context) -> devices.Candidate:
    """Check, resolve and generate the program. Raises TrialError at step check or generate."""
    return _candidate(number, tried, generate(checked(tried.text), ctx.sms), beside, ctx)


def _candidate(
    number: int, tried: Candidate, compiled: Any, beside: tuple[Finished, ...], ctx: Context
) -> devices.Candidate:
    if not compiled.sources:
        why = "; ".join(f"{name}: {r.message}" for name, r in compiled.refused.items())
        raise TrialError("generate", "no_backend", f"no back end takes this program: {why}")
    if tried.backend not in compiled.sources:
        refusal = compiled.refused[tried.backend]
        help = f"; {refusal.help}" if refusal.help else ""
        raise TrialError("generate", refusal.code, f"`{tried.backend}` cannot express it: {refusal.message}{help}")
    inputs, outputs = ctx.problem.bind(tried.text)
    whole = devices.Candidate(
        number, compiled.resolved, compiled.text, tried.cls, tried.backend, compiled.sources, inputs, outputs,
        compiled.refused,
    )  # fmt: skip
    region = ctx.problem.region(tried.text)
    if not region:
        return whole
    here = Placed(
        ctx.problem.ops(region), whole.program, whole.text, whole.backend, whole.sources[whole.backend], inputs, outputs
    )
    others = (_standing(t, ctx) for t in beside if t.region != region)
    return replace(whole, region=region, placed=(here, *others), rest=tried.rest)


def _standing(t: Finished, ctx: Context) -> Placed:
    """An earlier trial's program for its region. It was generated before, so this cannot fail."""
    if (t.text, t.backend) not in ctx.generated:
        compiled = generate(checked(t.text), ctx.sms)
        inputs, outputs = ctx.problem.bind(t.text)
        ctx.generated[t.text, t.backend] = Placed(
            ctx.problem.ops(t.region), compiled.resolved, compiled.text, t.backend, compiled.sources[t.backend],
            inputs, outputs,
        )  # fmt: skip
    return ctx.generated[t.text, t.backend]


def best_time(ended: Iterable[Finished], cls: str) -> float | None:
    """The time in ms of the best of a class so far: the fastest trial that counts and is faster than PyTorch.

    A strategy refines the fastest trial (engine.strategies.state.State.best), which may still be slower than PyTorch.
    """
    faster = (t.ms for t in ended if t.cls == cls and t.clean and t.ms is not None and (t.speedup or 0) > 1)
    return min(faster, default=None)


def standing(trials: Iterable[Finished]) -> tuple[Finished, ...]:
    return tuple(sorted(trials, key=lambda t: t.region))


def checked(text: str) -> Program:
    """The typed program. Raises Rejected with the first mistake in words and all mistakes in the detail."""
    result = check(text)
    if result.ok:
        return result.program
    first = root_cause(result.diagnostics)
    more = f" (and {len(result.diagnostics) - 1} more)" if len(result.diagnostics) > 1 else ""
    help = f"; {first.help}" if first.help else ""
    reason = f"line {first.span.line}: {first.message}{help}{more}"
    detail = "\n\n".join(d.render(text) for d in result.diagnostics)
    raise Rejected(first.code, reason, detail, result.diagnostics)


def root_cause(diagnostics: Sequence[Diagnostic]) -> Diagnostic:
    """The mistake to name if there is room for one."""
    return min(diagnostics, key=lambda d: d.code in CONSEQUENCES)


def run(number: int, tried: Candidate, ctx: Context, incumbent: Incumbent) -> Steps[None]:
    """Run one trial from its logged proposal to its end."""
    emit = ctx.journal.emit
    if ctx.journal.ended(number) is not None:
        return
    step = "check"
    try:
        for step, work in _steps(number, tried, ctx, incumbent):  # noqa: B007 - handlers below read `step`
            yield from work
        yield from emit(_inheriting(_judged(number, tried, ctx, incumbent), ctx.journal))
    except Untimed as e:
        yield from emit(_inheriting(_untimed(number, tried, e, ctx.journal), ctx.journal))
    except KernelFailed as e:
        seen_before = earlier_evidence(number, ctx.journal, upto=e.step)
        end = replace(failed(number, e), diagnostics=e.diagnostics, evidence=[*seen_before, *e.evidence])
        yield from emit(_inheriting(end, ctx.journal), *([e.detail] if e.detail else []))
    except TrialError as e:
        yield from emit(failed(number, e), *([e.detail] if e.detail else []))
    except Exception as e:  # an error of the engine ends one trial, not the session
        reason = f"the engine made a mistake ({type(e).__name__}: {e})"
        yield from emit(events.TrialFailed(number, step, "engine_error", reason, cause="run"))


def _named(measured: events.TrialMeasured, incumbent: Incumbent) -> events.TrialMeasured:
    """With the numbers of the trials whose programs ran in the other regions."""
    if not measured.part:
        return measured
    beside = [t.number for t in incumbent.beside if t.region != measured.part["region"]]
    return replace(measured, part={**measured.part, "beside": beside})


def failed(number: int, e: TrialError) -> events.TrialFailed:
    diagnostics = []
    if isinstance(e, Rejected):
        diagnostics = [
            {"code": d.code, "message": d.message, "line": d.span.line, "column": d.span.col,
             "end_line": d.span.end_line, "end_column": d.span.end_col, "help": d.help or ""}
            for d in e.diagnostics
        ]  # fmt: skip
    detail = events.blob_name(e.detail) if e.detail else None
    return events.TrialFailed(number, e.step, e.code, e.reason, detail, diagnostics, cause=cause_of(e.code))


def under_way(number: int, journal: Journal) -> str:
    """The current step of an open trial."""
    done = [
        ("measure", events.TrialValidated), ("validate", events.TrialCompiled), ("compile", events.TrialGenerated),
        ("generate", events.TrialChecked),
    ]  # fmt: skip
    return next((step for step, kind in done if journal.past(kind, number) is not None), "check")


def earlier_evidence(number: int, journal: Journal, upto: str = "") -> list[dict[str, Any]]:
    """The evidence of a kernel's text and rounds, without that of the step `upto`."""
    checked, validated = journal.past(events.TrialChecked, number), journal.past(events.TrialValidated, number)
    text = checked.evidence if checked is not None and upto != "check" else []
    return [*text, *(validated.evidence if validated is not None and upto != "validate" else [])]


def _inheriting(end: Any, journal: Journal) -> Any:
    """The end of a trial, with what it inherited from the trials that it was made from."""
    ancestors, seen = [], {end.trial}
    proposed = journal.past(events.TrialProposed, end.trial)
    while proposed is not None and proposed.parent is not None and proposed.parent not in seen:
        seen.add(proposed.parent)
        theirs = journal.ended(proposed.parent)
        ancestors.append((proposed.parent, theirs.evidence if theirs is not None else []))
        proposed = journal.past(events.TrialProposed, proposed.parent)
    lines = inherited(end.evidence, ancestors)
    return replace(end, evidence=[*end.evidence, *lines]) if lines else end


def _untimed(number: int, tried: Candidate, e: Untimed, journal: Journal) -> events.TrialUntimed:
    evidence = [*earlier_evidence(number, journal, upto=e.step), *e.evidence]
    verdict, words = verdict_of(evidence), e.reason
    if verdict in (GAMING, LIBRARY) and e.code != GAMING:  # say what the kernel is before why it has no time
        first = next(line for line in evidence if line["verdict"] == verdict)
        at = f"line {first['line']}: " if "line" in first else ""
        words = f"{at}{first['said']}; {words}"
    return events.TrialUntimed(number, verdict, tried.cls, e.step, e.code, words, evidence)


def _judged(number: int, tried: Candidate, ctx: Context, incumbent: Incumbent) -> events.TrialJudged:
    measured = ctx.journal.past(events.TrialMeasured, number)
    if tried.form == "kernel":
        earlier = earlier_evidence(number, ctx.journal)
        return judge_kernel(number, tried.cls, measured, incumbent.best_ms, ctx.limit(tried.cls), earlier)
    left_out = ctx.problem.algebraic(tried.text, tried.cls)
    limits = {cls: ctx.limit(cls) for cls in {*ctx.limits, roof(tried)}}
    return judge(number, tried, measured, incumbent.best_ms, limits, left_out, algebraic=ctx.algebraic)


def _steps(number: int, tried: Candidate, ctx: Context, incumbent: Incumbent) -> Iterator[tuple[str, Steps[None]]]:
    """(name of the step, its events) in order. `state` keeps what later steps need."""
    state: dict[str, Any] = {}
    emit, past = ctx.journal.emit, ctx.journal.past

    def check_() -> Steps[None]:
        t = time.perf_counter()
        state["program"] = checked(tried.text)
        resolved = resolve(state["program"], ctx.sms)
        text = to_text(resolved)  # a person sees every choice before code is generated
        shown = seen(resolved, ctx.hardware)
        yield from emit(events.TrialChecked(number, events.blob_name(text), time.perf_counter() - t, *shown), text)

    def examine() -> Steps[None]:
        if past(events.TrialChecked, number) is None:
            checked = yield Work(lambda: ctx.device.check(state["candidate"]), "core", "build")
            yield from emit(checked, tried.text)

    def generate_() -> Steps[None]:
        t = time.perf_counter()
        compiled = generate(state["program"], ctx.sms)
        sources, texts = {}, []
        for name, s in compiled.sources.items():
            texts.append(s.text)
            sources[name] = {
                "text": events.blob_name(s.text),
                "language": s.language,
                "lines": s.text.count("\n") + (not s.text.endswith("\n")),
                "line_map": [list(m) for m in s.line_map],
            }
        refused = {name: {"code": r.code, "message": r.message} for name, r in compiled.refused.items()}
        state["candidate"] = c = _candidate(number, tried, compiled, incumbent.beside, ctx)
        inputs, seconds = [{**asdict(b), "shape": list(b.shape)} for b in c.inputs], time.perf_counter() - t
        yield from emit(events.TrialGenerated(number, sources, refused, seconds, inputs, c.region), *texts)

    def build() -> Steps[None]:
        # Built again after a loss, because the device must hold the build. The log keeps the first answer.
        built = yield Work(lambda: ctx.device.build(state["candidate"]), "build", "build")
        yield from emit(built)

    def validate() -> Steps[None]:
        if past(events.TrialValidated, number) is None:
            yield from patiently("Verifying", lambda: ctx.device.validate(state["candidate"]))

    def measure() -> Steps[None]:
        baseline = ctx.baselines.get(tried.cls)
        if tried.form == "kernel" and ctx.device.kind != "measured":
            raise Untimed("measure", "no_prediction", NO_PREDICTION)
        if baseline is None:
            raise TrialError("measure", "no_baseline", f"there is no PyTorch time in class {tried.cls} to compare with")
        yield from patiently("Measuring", lambda: _named(ctx.device.measure(state["candidate"], baseline), incumbent))

    def patiently(doing: str, work: Callable[[], events.Event]) -> Steps[None]:
        tries = {"lost": 1, "room": 2}
        while True:
            try:
                done = yield Work(work, ctx.device.place, "trial")
                break
            except TrialError as e:
                later = ctx.device.room_later() if e.code in NO_ROOM else None
                cause = "lost" if e.code in LOST else "room" if later is not None else ""
                if not tries.get(cause):
                    raise
                tries[cause] -= 1
                when = "" if later is None else " once other sessions have given back some of theirs"
                text = f"Trial {number}: {e.reason.rstrip('.')}. {doing} again{when}"
                yield from emit(events.Progress(text, e.step))
                if later is not None:
                    yield Wait(later)
        yield from emit(done)

    if past(events.TrialMeasured, number) is not None:
        return  # only the verdict is missing
    if tried.form not in ctx.device.forms:
        what = "kernel" if tried.form == "kernel" else tried.form
        reason = f"{ctx.device.name} runs no {what}; start the session on a GPU (--device cuda)"
        raise TrialError("check", "no_such_form", reason)
    if tried.rest and not ctx.device.compiles_rest:
        reason = f"{ctx.device.name} does not compile what stays PyTorch; start the session on a GPU (--device cuda)"
        raise TrialError("check", "no_such_form", reason)
    if tried.form == "kernel":
        state["candidate"] = KernelTrial(number, tried.text, tried.cls, tried.language, tried.entry)
        yield "check", examine()
    else:
        yield "check", check_()
        yield "generate", generate_()
    yield "compile", build()
    yield "validate", validate()
    yield "measure", measure()


__all__ = [
    "LOST", "Context", "Incumbent", "Proposal", "Rejected", "candidate", "checked", "failed",
    "root_cause", "run", "seen", "standing", "under_way",
]  # fmt: skip
