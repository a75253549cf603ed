"""The one trial pipeline: proposed -> checked -> generated -> compiled -> validated -> measured -> judged.

Every strategy's programs and the owner's own go through it, step by step, and a trial may end at each step with a
reason. A step that the log already holds (a lost engine's session) is not emitted again: it is redone silently
where a later step needs what it left in the device, and skipped where it does not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, TypeVar

from dsl.check.program import check
from dsl.compile import compile as generate
from dsl.diagnostics import Diagnostic
from dsl.ir import Program
from dsl.printer import to_text
from dsl.resolve import resolve
from engine.classes import class_of, class_words, roof_of
from engine.devices import Candidate, Device, Placed, TrialError
from engine.evaluate.integrity import trial as integrity
from engine.session import events
from engine.session.view import cause_of
from engine.strategies import Finished, Proposal, Strategy
from engine.words import baseline_name
from sol import budget, lever_check
from sol.attainable import predict
from sol.hardware import Hardware, HardwareError

T = TypeVar("T")
TOO_FAST = 0.9  # below this share of t_sol a time is flagged, never celebrated (design/sol.md, Integrity)
# A process of ours ended before it judged, which says little about the program: the step is done once more, by a fresh
# one. (A program that ends the GPU's worker itself ends the second one too. An error of CUDA has its own code.)
LOST = ("reference_crashed", "oracle_died", "worker_lost")


class Stopped(Exception):
    """The owner said stop while a step was under way."""


@dataclass(frozen=True)
class Emitted:
    """An event to append to the log, the blobs that it names, and its time in seconds since the epoch."""

    event: events.Event
    blobs: dict[str, str]
    t: float


Steps = Generator[Emitted, None, T]


@dataclass
class Context:
    """What the trials of one session share. `limits`: class -> t_sol in ms; `baselines`: class -> its baseline.

    `emit(event, *texts)` yields an event with its blobs; `call(f)` runs f beside the owner's word, raising Stopped;
    `past(kind, trial)` is the event that the log already holds. `beside`: the programs that stand in the other regions
    of a module during the next trial (engine.strategies.State.standing).
    """

    device: Device
    strategy: Strategy
    hardware: Hardware
    limits: dict[str, float]
    baselines: dict[str, events.Baseline]
    emit: Callable[..., Iterator[Emitted]]
    call: Callable[[Callable[[], Any]], Steps[Any]]
    past: Callable[[type[events.Event], int], Any]
    beside: tuple[Finished, ...] = ()
    algebraic: bool = False  # whether a program that leaves out work may be the best
    generated: dict[tuple[str, str], Placed] = field(default_factory=dict)

    @property
    def sms(self) -> int:
        return self.hardware.sms


def seen(resolved: Program, hardware: Hardware) -> tuple[list[dict[str, Any]], list[str]]:
    """What pages draw of a program without working it out: its stages' predicted times, none where the device has no
    units of a stage's type, and the report's actions that it shows."""
    try:
        stages = [asdict(s) for s in predict(resolved, hardware).stages]
    except HardwareError:
        stages = []
    return stages, sorted(lever_check.tried(resolved, hardware.sms))


def candidate(number: int, proposal: Proposal, ctx: Context) -> Candidate:
    """The proposal checked, resolved and generated. Raises TrialError at step check or generate."""
    program = checked(proposal.text)
    compiled = generate(program, ctx.sms)
    return _candidate(number, proposal, compiled, ctx)


def _candidate(number: int, proposal: Proposal, compiled: Any, ctx: Context) -> Candidate:
    if not compiled.sources:
        why = "; ".join(f"{name}: {r.message}" for name, r in compiled.refused.items())
        raise TrialError("generate", "no_backend", f"no back end takes this program: {why}")
    if proposal.backend not in compiled.sources:
        refusal = compiled.refused[proposal.backend]
        help = f"; {refusal.help}" if refusal.help else ""
        raise TrialError("generate", refusal.code, f"`{proposal.backend}` cannot express it: {refusal.message}{help}")
    inputs, outputs = ctx.strategy.bind(proposal.text)
    made = Candidate(
        number, compiled.resolved, compiled.text, proposal.cls, proposal.backend, compiled.sources, inputs, outputs,
        compiled.refused,
    )  # fmt: skip
    region = _region(proposal.text, ctx)
    if not region:
        return made
    here = Placed(
        ctx.strategy.ops(region), made.program, made.text, made.backend, made.sources[made.backend], inputs, outputs
    )
    return replace(made, region=region, placed=(here, *(_standing(t, ctx) for t in ctx.beside if t.region != region)))


def _region(text: str, ctx: Context) -> int:
    """The region that a program stands for, where the strategy knows regions; 0: the whole module."""
    return ctx.strategy.region(text) if hasattr(ctx.strategy, "region") else 0


def _standing(t: Finished, ctx: Context) -> Placed:
    """An earlier trial's program in its place; it was generated before, so that this cannot fail."""
    if (t.text, t.backend) not in ctx.generated:
        compiled = generate(checked(t.text), ctx.sms)
        inputs, outputs = ctx.strategy.bind(t.text)
        ctx.generated[t.text, t.backend] = Placed(
            ctx.strategy.ops(t.region), compiled.resolved, compiled.text, t.backend, compiled.sources[t.backend],
            inputs, outputs,
        )  # fmt: skip
    return ctx.generated[t.text, t.backend]


def standing(found: Iterable[Finished]) -> tuple[Finished, ...]:
    return tuple(sorted(found, key=lambda t: t.region))


def checked(text: str) -> Program:
    """The typed program, or TrialError("check") with the first mistake in words and all of them in the detail."""
    result = check(text)
    if result.ok:
        return result.program
    first = root_cause(result.diagnostics)
    more = f" (and {len(result.diagnostics) - 1} more)" if len(result.diagnostics) > 1 else ""
    help = f"; {first.help}" if first.help else ""
    reason = f"line {first.span.line}: {first.message}{help}{more}"
    raise TrialError("check", first.code, reason, "\n\n".join(d.render(text) for d in result.diagnostics))


def root_cause(diagnostics: Sequence[Diagnostic]) -> Diagnostic:
    """The mistake to name when there is room for one: what is unused is often so because of another mistake."""
    return min(diagnostics, key=lambda d: d.code in ("E402", "E403"))


def backend_of(text: str, sms: int) -> str:
    """The back end for a program that names none: the fast build where it can, `cpp` where it must."""
    result = check(text)
    if result.ok:
        sources = generate(result.program, sms).sources
        for name in ("cute", "cpp"):
            if name in sources:
                return name
    return "cute"


def run(number: int, proposal: Proposal, ctx: Context, best_ms: float | None) -> Steps[Finished]:
    """One trial from its proposal to its end, which the returned Finished sums up; `best_ms`: what `best_time` gives.

    Raises Stopped, after the trial's own end was emitted, when the owner stopped the session meanwhile.
    """
    failed = ctx.past(events.TrialFailed, number)
    judged = ctx.past(events.TrialJudged, number)
    if failed or judged:
        return finished(number, proposal, failed or judged, ctx)
    step = "check"
    try:
        for step, work in _steps(number, proposal, ctx):  # noqa: B007 - the handlers below read `step`
            yield from work
        judged = judge(number, proposal, ctx, best_ms)
        yield from ctx.emit(judged)
        return finished(number, proposal, judged, ctx)
    except Stopped:
        reason = "stopped by the owner before this trial was finished"
        end = events.TrialFailed(number, step, "stopped", reason, cause="owner")
        yield from ctx.emit(end)
        raise
    except TrialError as e:
        detail = events.blob_name(e.detail) if e.detail else None
        end = events.TrialFailed(number, e.step, e.code, e.reason, detail, cause_of(e.code))
        yield from ctx.emit(end, *([e.detail] if e.detail else []))
    except Exception as e:  # a mistake of ours costs one trial, not the session
        reason = f"the engine made a mistake ({type(e).__name__}: {e})"
        end = events.TrialFailed(number, step, "engine_error", reason, cause="run")
        yield from ctx.emit(end)
    return finished(number, proposal, end, ctx)


def _steps(number: int, proposal: Proposal, ctx: Context) -> Iterator[tuple[str, Steps[None]]]:
    """(name of the step, its events) in order; what a later step needs is kept in between."""
    made: dict[str, Any] = {}

    def check_() -> Steps[None]:
        t = time.perf_counter()
        made["program"] = checked(proposal.text)
        resolved = resolve(made["program"], ctx.sms)
        text = to_text(resolved)  # a person sees every choice before any code is made
        told = seen(resolved, ctx.hardware)
        yield from ctx.emit(events.TrialChecked(number, events.blob_name(text), time.perf_counter() - t, *told), text)

    def generate_() -> Steps[None]:
        t = time.perf_counter()
        compiled = generate(made["program"], ctx.sms)
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
        made["candidate"] = c = _candidate(number, proposal, compiled, ctx)
        inputs, seconds = [asdict(b) for b in c.inputs], time.perf_counter() - t
        yield from ctx.emit(events.TrialGenerated(number, sources, refused, seconds, inputs, c.region), *texts)

    def build() -> Steps[None]:
        # Done again after a loss, for the device must hold the build; the log keeps the first answer.
        done = yield from ctx.call(lambda: ctx.device.build(made["candidate"]))
        yield from ctx.emit(done)

    def validate() -> Steps[None]:
        if ctx.past(events.TrialValidated, number) is None:
            yield from twice("Verifying", lambda: ctx.device.validate(made["candidate"]))

    def measure() -> Steps[None]:
        baseline = ctx.baselines.get(proposal.cls)
        if baseline is None:
            raise TrialError(
                "measure", "no_baseline", f"there is no PyTorch time in class {proposal.cls} to compare with"
            )
        yield from twice("Measuring", lambda: ctx.device.measure(made["candidate"], baseline))

    def twice(doing: str, work: Callable[[], events.Event]) -> Steps[None]:
        try:
            done = yield from ctx.call(work)
        except TrialError as e:
            if e.code not in LOST:
                raise
            why = e.reason.rstrip(".")
            yield from ctx.emit(events.Progress(f"Trial {number}: {why}. {doing} once more", e.step))
            done = yield from ctx.call(work)
        yield from ctx.emit(done)

    if ctx.past(events.TrialMeasured, number) is not None:
        return  # only the judgement is missing
    yield "check", check_()
    yield "generate", generate_()
    yield "compile", build()
    yield "validate", validate()
    yield "measure", measure()


def _algebraic(proposal: Proposal, ctx: Context) -> Any:
    """What the program leaves out of the work that the module asks for; None where it does it all."""
    told = getattr(ctx.strategy, "algebraic", None)
    return told(proposal.text, proposal.cls) if told is not None else None


def limiting(text: str, cls: str) -> str:
    """The class whose limit a trial of class `cls` is held to: guarded f16 stands in tf32, under the roof of f16."""
    program = check(text).program if "guard" in text else None
    return roof_of(program) if program is not None and program.guard else cls


def judge(number: int, proposal: Proposal, ctx: Context, best_ms: float | None) -> events.TrialJudged:
    """The verdict from the measured event: its evidence, and against the limit, the baseline and the best."""
    m: events.TrialMeasured = ctx.past(events.TrialMeasured, number)
    program = checked(proposal.text)
    derived, roof = class_of(program), roof_of(program)
    ms, limit = m.time.ms, ctx.limits[limiting(proposal.text, proposal.cls)]
    left_out = _algebraic(proposal, ctx)
    if left_out is not None:  # held to the limit of what it computes
        limit = left_out.limits.get(limiting(proposal.text, proposal.cls), limit)
    gap = budget.gap(ms, limit)
    score = budget.score(ms, limit, m.baseline_ms)
    kind = "measured" if isinstance(m.time, events.Measurement) else "predicted"
    evidence = [
        *m.checks,
        integrity.of_precision(derived, proposal.cls, roof),
        integrity.of_limit(gap, limit, TOO_FAST),
    ]
    if left_out is not None:
        evidence.append(integrity.check("algebra", integrity.MINOR, left_out.words))
    verdict = integrity.worst(evidence)
    counts = verdict in ("clean", "minor")
    offered = left_out is not None and not ctx.algebraic
    best = counts and not offered and m.ratio > 1 and (best_ms is None or ms < best_ms)
    standing = "best" if best else "flagged" if not counts else "algebraic" if offered else "slower"
    if not counts:
        why = next(c["said"] for c in evidence if c["verdict"] == verdict)
        text = f"{ms:.3g} ms {kind}, but it is not counted: {why}"
    else:
        text = f"{ms:.3g} ms {kind}{' for the whole module' if m.part else ''}, "
        text += f"{_factor(m.ratio)} {baseline_name(m.baseline)}, {gap:.2f} times the limit"
        text += f" of {roof} ({class_words(program)})" if program.guard else ""
        if theirs := m.part.get("region_eager_ms"):
            region = f"region {m.part['region']} alone {m.part['region_ms']:.3g} ms"
            text += f"; {region}, {_factor(theirs / m.part['region_ms'])} PyTorch's own {theirs:.3g} ms for it"
        text += f"; {said}" if (said := integrity.tripped(m.checks)) else ""
        text += f"; the best in {proposal.cls} so far" if best else ""
        text += f"; algebraic ({left_out.words}): no best unless it is allowed" if offered else ""
    return events.TrialJudged(
        number, verdict, proposal.cls, kind, ms, m.ratio, m.baseline, gap, score, best, text, evidence,
        left_out.words if left_out else "", standing,
    )  # fmt: skip


def best_time(ended: Iterable[Finished], cls: str) -> float | None:
    """The time in ms of the best of a class so far: the fastest trial that counts and is faster than PyTorch.

    A strategy refines the fastest trial (engine.strategies.State.best), which may still be slower than PyTorch.
    """
    return min((t.ms for t in ended if t.cls == cls and t.clean and t.ms is not None and (t.speedup or 0) > 1),
               default=None)  # fmt: skip


def _factor(ratio: float) -> str:
    return f"{ratio:.2f}x faster than" if ratio >= 1 else f"{1 / ratio:.2f}x slower than"


def finished(number: int, proposal: Proposal, end: events.TrialJudged | events.TrialFailed, ctx: Context) -> Finished:
    ok = isinstance(end, events.TrialJudged)
    measured: events.TrialMeasured | None = ctx.past(events.TrialMeasured, number) if ok else None
    return Finished(
        number, proposal.text, proposal.cls, proposal.backend, proposal.by,
        end.ms if ok else None, ok and end.verdict in ("clean", "minor") and (ctx.algebraic or not end.algebraic),
        "" if ok else end.step,
        _region(proposal.text, ctx), measured.part.get("region_ms") if measured else None, end.speedup if ok else None,
        bool(measured and integrity.tripped(measured.checks)),
    )  # fmt: skip
