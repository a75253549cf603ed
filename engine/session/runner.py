"""One session: strategy x device x budget -> a stream of events. `run` is the only public function.

A session is a sequence of steps, each identified by its event. From the same log it takes the same steps. A step in the
log is not logged again, and it is executed again only if a later step needs its state in the device. Resuming a session
needs no other state.

This module has the steps around the search. The search itself (a strategy's script) is in engine.session.script.search,
a trial in engine.session.trial. The caller's generator thread runs the steps and reads the owner's commands; work that
blocks runs in other threads (engine.session.script.lanes).
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import asdict, replace
from typing import Any

from dsl.check.program import check
from dsl.printer import to_text
from engine.devices import Device, Problem, SessionRefused
from engine.evaluate.profiling import profiler
from engine.executors import Executor, Share
from engine.session import events, outcome, trial
from engine.session.journal import Journal
from engine.session.owner import Control, Owner
from engine.session.script import compiled, profile, ready, turns
from engine.session.script.compiled import Compiling
from engine.session.script.lanes import Job, Lanes
from engine.session.script.memory import Memory
from engine.session.script.search import Ending, Search, StrategyChanged, refuse_older
from engine.session.script.state_fold import StateFold
from engine.session.script.steps import Emitted, Events, Logged, Stopped
from engine.session.spec import UNTITLED, BadSpec, SessionSpec
from engine.strategies import registry
from engine.strategies.api import Strategy, Unsuitable
from engine.strategies.planner.lowering import program_graph
from engine.strategies.problem import Cancelled, Prepared
from engine.strategies.pytorch_stays import PyTorchStays
from sol.bounds import pytorch_class
from sol.graph import OpGraph
from sol.hardware import Hardware, HardwareError
from sol.hardware import load as load_hardware
from sol.report import Garbled, of_a_trace, report

logger = logging.getLogger(__name__)
SEARCHING = events.Progress("Searching", "search")  # after PyTorch's baselines, before the script starts
NO_PROGRAM = ("no_class", "not_covered")  # refusals of a module that PyTorch or a raw kernel may still compute


def _no_blob(name: str) -> str:
    raise KeyError(name)


def run(
    spec: SessionSpec | dict[str, Any],
    *,
    device: Device | str | None = None,
    history: Sequence[tuple[int, events.Event]] = (),
    read_blob: Callable[[str], str] = _no_blob,
    control: Control = tuple,
    now: Callable[[], float] = time.time,
    began: float | None = None,
    local_user: bool = False,
    teaches: bool = True,
    memory: str | None = None,
    handlers: Mapping[str, turns.Handler] | None = None,
    strategy: Strategy | None = None,
    share: Share | None = None,
    executor: Executor | None = None,
    tracer: Callable[..., Any] | None = None,
    compiling: Compiling | None = None,
) -> Iterator[Emitted]:
    """The events of a session, from the end of `history` (seq, event) to SessionEnded. Raises no exception of its own.

    `device`: a device, a name, or None for the spec's. `read_blob(name)` returns the text of a blob in the history.
    `control()` returns the owner's commands since the last call: (kind, data) with kind pause | resume | stop | budget
    | try | profile; it may be engine.session.owner.Resting too. A BaseException that it raises and that is no Exception
    (an engine is ordered to leave) passes through. Closing the generator ends every process of the session. `began`:
    the time of the session's first event by `now`, so that a resumed session reports its whole length; None: now.
    `local_user`: the text belongs to the local user, who may accept a weaker sandbox. `teaches`: store the measurements
    for this machine's next problems. `memory`: the strategy's frozen memory of other problems; None: the memory of this
    machine. `handlers`: answer a script's turns (engine.session.script.turns). `strategy`: used in place of the spec's,
    which then only gives the name. `share`: whose session it is, for its turn among others that use the same `executor`
    (None: that of this process). `tracer`: used in place of engine.trace.trace. `compiling`: which of torch.compile's
    times the session takes.
    """
    try:
        spec = spec if isinstance(spec, SessionSpec) else SessionSpec.from_json(spec)
    except BadSpec as e:
        raw = spec if isinstance(spec, dict) else {}
        text = str(raw.get("source", ""))
        if not any(isinstance(e, events.SessionStarted) for _, e in history):
            started = events.SessionStarted(
                str(raw.get("title", "")), events.blob_name(text), str(raw.get("source_kind", "module")), {}, "", [], {}
            )
            yield Emitted(started, {started.source: text}, now())
        yield Emitted(events.SessionEnded("refused", str(e), {}, 0, 0.0, "bad_spec"), {}, now())
        return
    journal = Journal((e for _, e in history), read_blob, now)
    session = _Session(spec, device, journal, control, handlers or {})
    session.lanes = Lanes(session.owner, executor, share)
    session.local_user, session.memory = local_user, Memory(journal, teaches, memory)
    session.strategy, session.tracer = strategy or session.strategy, tracer
    session.compiling = compiling or session.compiling
    session.earlier = 0.0 if began is None else max(0.0, now() - began)
    yield from session.run()


class _Session:
    """`earlier`: seconds that lost engines spent; the other public attributes are `run`'s arguments."""

    local_user = False
    memory: Memory
    lanes: Lanes
    earlier, tracer, compiling = 0.0, None, Compiling()

    def __init__(
        self, spec: SessionSpec, device: Any, journal: Journal, control: Control,
        handlers: Mapping[str, turns.Handler],
    ):  # fmt: skip
        self.spec, self.wanted, self.handlers = spec, device, handlers
        self.journal, self.owner = journal, Owner(spec, journal, control)
        self.emit, self.past = journal.emit, journal.past
        self.began = time.monotonic()
        self.device: Device | None = None
        self.closed: list[dict[str, Any]] = []  # of events.SessionEnded
        self.covered: list[dict[str, Any]] = []  # the same
        self.strategy: Strategy = registry.available()[spec.strategy](spec.options)

    # ---- from the start to the end ----

    def run(self) -> Events:
        if self.past(events.SessionEnded):
            return
        try:
            yield from self._run()
        finally:
            self.lanes.close(self.device.close if self.device is not None else None)

    def _run(self) -> Events:
        state, line = "done", None
        try:
            yield from self._begin()
            ending = yield from self._work()
            code, reason = ending.code, ending.reason
        except Stopped:
            state, code, reason = "stopped", *outcome.stopped(self.journal)
        except SessionRefused as e:
            state, reason, code, line = "refused", e.reason, e.code, e.line
            self.covered = e.kinds
        except Unsuitable as e:
            state, reason, code = "refused", e.reason, e.code
        except HardwareError as e:
            state, reason, code = "refused", str(e), "hardware"
        except StrategyChanged as e:
            state, reason, code = "failed", str(e), "strategy_changed"
        except Exception as e:
            logger.exception("the session failed")
            state, reason, code = "failed", f"The engine made a mistake ({type(e).__name__}: {e}).", "engine_error"
        yield from self._end_what_is_open(state, code)
        seconds = self.earlier + time.monotonic() - self.began
        trials = len(self.journal.of(events.TrialProposed))
        best = {cls: e.trial for cls, e in outcome.best(self.journal).items()}
        untried = len(self.journal.untaken_tries())
        reason = outcome.with_untried(reason, untried)
        yield from self.emit(
            events.SessionEnded(
                state, reason, best, trials, seconds, code, line, self.closed, self.covered, untried,
                self.lanes.spent.seconds(),
            )
        )  # fmt: skip

    def _end_what_is_open(self, state: str, code: str) -> Events:
        """Log an end for each open trial, turn and profile."""
        stopped = state == "stopped"
        why = "stopped by the owner" if stopped else "the session ended"
        for e in self.journal.open_trials():
            step = trial.under_way(e.trial, self.journal)
            reason = f"{why} before this trial was finished"
            end_code = "stopped" if stopped else code or "ended"
            cause = "owner" if stopped else "run"
            yield from self.emit(events.TrialFailed(e.trial, step, end_code, reason, cause=cause))
        for e in self.journal.of(events.Asked):
            if self.journal.at(events.Answered, e.path) is None:
                yield from self.emit(turns.stopped(e))
        yield from profile.refuse_rest(self.journal)

    def _begin(self) -> Events:
        """Log the first event, which cannot fail, then the device's description of itself."""
        refused = None
        described: dict[str, Any] = {"name": self.spec.device, "kind": "", "hardware": ""}
        try:
            from engine.devices import registry as devices

            wanted = self.spec.device if self.wanted is None else self.wanted
            self.device = devices.get(wanted, local_user=self.local_user)
            described = {**self.device.describe(), "name": self.device.name, "kind": self.device.kind}
            described["hardware"] = self.device.hardware
        except (SessionRefused, HardwareError) as e:
            refused = e
        spec = self.spec
        resumed = bool(self.journal.log)
        yield from self.emit(
            events.SessionStarted(
                spec.title or UNTITLED, events.blob_name(spec.source), spec.source_kind, described, spec.strategy,
                list(spec.classes), spec.budget, spec.seed, spec.algebraic, spec.options.logged(),
            ),
            spec.source,
        )  # fmt: skip
        if resumed:
            yield from self.emit(events.Resumed(f"Continued after event {len(self.journal.log)}."))
        if refused:
            raise refused
        self.lanes.widen(self.device.lanes)

    def _work(self) -> Logged[Ending]:
        yield from self.lanes.run([Job(steps, beside=True) for steps in turns.first(self.handlers, self.journal)])
        refuse_older(self.journal)
        device = self.device
        graph = yield from self._trace()
        hardware = self._hardware()
        yield from self._report(graph, hardware)
        traced = Problem(self.spec.source, self.spec.source_kind, graph, self.spec.seed)
        problem = yield from self._prepared(traced, hardware)
        yield from self.lanes.run()
        what = "the GPU" if device.kind == "measured" else f"the model of {hardware.title}"
        yield from self.emit(events.Progress(f"Getting {what} ready", "open"))
        yield from ready.admitted(device, traced, self.lanes, self.emit)
        context = trial.Context(device, problem, hardware, problem.limits, {}, self.journal, self.spec.algebraic)
        planned = Job(ready.planned(self.strategy, context), beside=True)
        yield from self.lanes.run([Job(ready.opened(device, traced, self.owner.stop.is_set)), planned])
        fold = StateFold(self.journal, problem, context.baselines, self.spec.budget, algebraic=self.spec.algebraic)
        handlers = {**profiler.handlers(device, self.journal), **self.handlers}
        search = Search(self.journal, self.owner, self.lanes, self.strategy, context, fold, handlers)
        search.hint(planned.result)
        yield from self._baselines(context)
        if compiles := self.spec.compile and device.times_compiled:
            compiled.begin(device, problem.classes, self.compiling, self.owner, self.journal)
        try:
            ending = yield from search.run()
        except Stopped:
            yield from self.memory.teach(problem, self.strategy, fold)
            raise
        yield from self.memory.teach(problem, self.strategy, fold)
        if compiles:
            yield from compiled.times(device, problem.classes, self.compiling, self.lanes, self.owner, self.journal)
        state = fold.now()
        self.closed = [{"cls": cls, **asdict(stop)} for cls, stop in fold.stops.items()]
        return replace(ending, reason=outcome.summary(ending.reason, self.journal, problem.classes, state))

    # ---- the problem ----

    def _trace(self) -> Logged[OpGraph]:
        known = self.past(events.Traced)
        if known:
            return OpGraph.from_json(self.journal.blob(known.graph))
        yield from self.emit(
            events.Progress("Reading the program" if self._is_program else "Tracing the module", "trace")
        )
        t = time.perf_counter()
        yield from self.lanes.call(lambda: self.device.warm(self.spec.source_kind), doing="trace")
        graph, title, note = yield from self.lanes.call(self._graph, "report", "trace")
        text, title = graph.to_json(), title if self.spec.title in ("", UNTITLED) else ""
        traced = events.Traced(events.blob_name(text), len(graph.ops), time.perf_counter() - t, title, note)
        yield from self.emit(traced, text)
        return graph

    @property
    def _is_program(self) -> bool:
        return self.spec.source_kind == "program"

    def _graph(self) -> tuple[OpGraph, str, str]:
        """The graph, a title, and what a person should know of it."""
        if self._is_program:
            checked = check(self.spec.source)
            if not checked.ok:
                d = trial.root_cause(checked.diagnostics)
                help = f" Help: {d.help}." if d.help else ""
                raise SessionRefused(d.code, f"Line {d.span.line}: {d.message}.{help}", d.span.line)
            return program_graph.graph_of(checked.program), "", ""
        from engine.trace import trace

        traced = (self.tracer or trace)(self.spec.source, cancelled=self.owner.stop.is_set, local_user=self.local_user)
        if self.device.kind == "measured":
            traced.on_gpu()
        return traced.graph, traced.title, getattr(traced, "note", "")

    @contextmanager
    def _garbled(self, work: str) -> Iterator[None]:
        """Refuse the session when work on a module's graph fails, which the module may have written itself."""
        try:
            with nullcontext() if self._is_program else of_a_trace(work, (SessionRefused, Cancelled)):
                yield
        except Garbled as e:
            raise SessionRefused("garbled", str(e)) from None

    def _hardware(self) -> Hardware:
        """The device's figures, from the log if it has them, because new probes on this machine must not change a
        ranking. The second roof of a measuring device is that of this machine, if it was probed."""
        reported = self.past(events.Reported)
        if reported is not None and reported.hardware:
            return Hardware(**json.loads(self.journal.blob(reported.hardware)))
        hardware = load_hardware(self.device.hardware)
        if self.device.kind == "measured":
            from engine.devices import ceilings

            hardware = ceilings.known(hardware)
        return hardware

    def _report(self, graph: OpGraph, hardware: Hardware) -> Events:
        if self.past(events.Reported):
            return
        with self._garbled("no report can be made of it"):
            limits = report(graph, hardware, asked=self.spec.classes)
            text, figures = limits.to_json(), json.dumps(asdict(hardware))
        bounds = {cls: b["ms"] for cls, b in limits.bounds.items()}
        event = events.Reported(events.blob_name(text), bounds, limits.sentence, events.blob_name(figures))
        yield from self.emit(event, text, figures)

    def _prepared(self, task: Problem, hardware: Hardware) -> Logged[Prepared]:
        """The problem with all that a script may ask about it."""

        def prepared() -> Prepared:
            device, cancelled = self.device, self.owner.cancelled
            with self._garbled("no program can be planned for it"):
                return Prepared(task, self.spec.classes, hardware, device.kind, device.screens, cancelled=cancelled)

        problem = yield from self.lanes.call(prepared, "think", "prepare", beside=True)
        refusal = problem.refusal
        if refusal is not None:
            kernels = any(e.data.get("form") == "kernel" for e in self.journal.tries())
            # A wrong class is the person's choice to change; a module without a program stays PyTorch.
            goes_on = kernels or (
                not self._is_program and (refusal.code == "not_covered" or not self.strategy.programs)
            )
            if refusal.code not in NO_PROGRAM or not goes_on:
                raise refusal
            self.covered = refusal.kinds
            if self.strategy.programs or self._is_program:
                self.strategy = PyTorchStays(kernels)
            yield from self.emit(events.Noted("no_program", f"No program covers this module: {refusal.reason}"))
        for note in (*problem.notes, *(events.Noted(*remark) for remark in self.strategy.remarks(problem))):
            yield from self.emit(note)
        if self.strategy.receives:
            for part in (part for part in problem.parts if part.algebraic is None):
                text = to_text(part.base)
                of = f"region {part.number}" if part.number else "the module"
                note = f"A program of {of} in {part.cls} to start from: yours must have its parameters and results"
                started = events.Noted("start_from", note, part.cls, events.blob_name(text), part.number)
                yield from self.emit(started, text)
        if problem.covered is not None:
            yield from self.emit(problem.covered)
        yield from self.memory.recall(problem, self.strategy, self.lanes)
        return problem

    # ---- PyTorch ----

    def _baselines(self, context: trial.Context) -> Events:
        """Take PyTorch's times once. Later times of torch.compile do not count in the search."""
        classes = context.problem.classes
        if not self.journal.holds(SEARCHING):
            yield from self.emit(events.Progress("Timing PyTorch", "baselines"))
            times = self.device.baselines(classes)
            while (baseline := (yield from self._next(times))) is not None:
                yield from self.emit(baseline)
            yield from self.emit(SEARCHING)
        for e in self.journal.log[: self.journal.index(SEARCHING)]:
            if isinstance(e, events.Baseline):
                known = context.baselines.get(e.cls)
                if known is None or _rank(e) < _rank(known):
                    context.baselines[e.cls] = e
        for cls in classes:  # PyTorch has no fp8 baseline
            theirs = context.baselines.get(pytorch_class(cls, context.problem.graph))
            if theirs is not None:
                context.baselines.setdefault(cls, theirs)

    def _next(self, times: Iterator[events.Baseline]) -> Logged[events.Baseline | None]:
        return self.lanes.call(lambda: next(times, None), self.device.place, "pytorch")


def _rank(b: events.Baseline) -> int:
    """The order among baselines of one class: eager before compiled."""
    return "compile" in b.name


__all__ = ["BadSpec", "Control", "Emitted", "SessionSpec", "run"]
