"""One session: strategy x device x budget -> a stream of events. `run` is all that anybody outside calls.

A session is a script whose every step is named by what it would log. Given the log so far it plays the script
again: steps in the log are not emitted twice and, unless a later step needs what they left in the device, not done
twice. That is all there is to resuming; no other state survives a lost engine.

The caller's generator thread runs the script and polls the owner's word; every call into the device runs in one
thread beside it, so that a stop is heard in the middle of a build. (One thread for the whole session, because a
sandboxed child dies with the thread that started it.)
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from threading import Event as Flag
from typing import Any

from dsl.check import check
from engine import events, trials
from engine.devices import Device, Problem, SessionRefused, TrialError
from engine.spec import UNTITLED, BadSpec, SessionSpec
from engine.strategies import NAMES, Finished, Proposal, State, Strategy, load, memory, program_graph
from engine.trials import Emitted, Steps, Stopped
from engine.words import baseline_name, count
from sol import budget
from sol.bounds import t_sol
from sol.graph import OpGraph
from sol.hardware import Hardware, HardwareError
from sol.hardware import load as load_hardware
from sol.report import report

logger = logging.getLogger(__name__)

POLL = 0.05  # seconds between looks at the owner's word while a device works
PREFETCH = 4  # candidates handed to the device to build ahead
WORDS = ("pause", "resume", "stop", "budget", "try")

Control = Callable[[], Sequence[tuple[str, dict[str, Any]]]]


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
) -> Iterator[Emitted]:
    """The events of a session, from where `history` (seq, event) ends to SessionEnded. Never raises an error.

    `device`: one to use, a name, or None for the spec's own. `read_blob(name)` gives the text of a blob in the
    history. `control()` gives the owner's words since the last call: (kind, data) with kind pause | resume | stop |
    budget | try. What it raises that is no Exception (an engine told to leave) passes through, and closing the
    generator ends every process of the session. `began`: when the session's first event was made, by `now`'s clock, so
    that one taken up again tells its whole length; None: now. `local_user`: the text is the person's own, who may
    accept a weaker sandbox. `teaches`: what is measured here is kept for this machine's next problems.
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
    past = [e for _, e in history]
    yield from _Session(spec, device, past, read_blob, control, now, began, local_user, teaches).run()


class _Session:
    def __init__(
        self, spec: SessionSpec, device: Any, past: list, read_blob: Any, control: Control, now: Any,
        began: float | None, local_user: bool, teaches: bool,
    ):  # fmt: skip
        self.spec, self.wanted, self.now = spec, device, now
        self.read_blob, self.control, self.local_user, self.teaches = read_blob, control, local_user, teaches
        self.log: list[events.Event] = list(past)
        self.blobs: dict[str, str] = {}
        self.earlier = 0.0 if began is None else max(0.0, now() - began)  # seconds of engines that were lost
        self.began = time.monotonic()
        self.cancel = Flag()
        self.device: Device | None = None
        self.pool = ThreadPoolExecutor(1, "session")
        self.paused = False
        self.budget = spec.budget
        self.ended: list[Finished] = []
        for e in past:
            if isinstance(e, events.Controlled):
                self._obey(e.action, e.data)

    # ---- the log ----

    def past(self, kind: type[events.Event], trial: int | None = None) -> Any:
        """The event of this kind (and trial) that the log holds, or None."""
        for e in self.log:
            if isinstance(e, kind) and (trial is None or e.trial == trial):
                return e
        return None

    def emit(self, event: events.Event, *texts: str) -> Iterator[Emitted]:
        """Log the event with its blobs, unless the log holds this step already."""
        if self._known(event):
            return
        self.log.append(event)
        blobs = {events.blob_name(t): t for t in texts}
        self.blobs.update(blobs)
        yield Emitted(event, blobs, self.now())

    def _known(self, event: events.Event) -> bool:
        if isinstance(event, events.Controlled | events.Resumed):
            return False
        if isinstance(event, events.Progress):
            return event in self.log
        if isinstance(event, events.Baseline):
            return any(isinstance(e, events.Baseline) and (e.name, e.cls) == (event.name, event.cls) for e in self.log)
        return self.past(type(event), getattr(event, "trial", None)) is not None

    def blob(self, name: str) -> str:
        if name not in self.blobs:
            self.blobs[name] = self.read_blob(name)
        return self.blobs[name]

    # ---- the owner's word ----

    def poll(self) -> Iterator[Emitted]:
        for kind, data in self.control():
            if kind not in WORDS:
                continue
            if kind == "budget":
                data = self._sane(data)
            texts = []
            if kind == "try":
                text = str(data.get("program", ""))
                data, texts = {**data, "program": events.blob_name(text)}, [text]
            self._obey(kind, data)
            yield from self.emit(events.Controlled(kind, dict(data)), *texts)

    def _obey(self, action: str, data: dict[str, Any]) -> None:
        if action == "stop":
            self.cancel.set()
        elif action in ("pause", "resume"):
            self.paused = action == "pause"
        elif action == "budget":
            self.budget = {**self.budget, **{k: v for k, v in data.items() if k in self.budget}}

    def _sane(self, data: dict[str, Any]) -> dict[str, Any]:
        """The fields of a budget that a spec would take; the others are dropped."""
        kept = {}
        for name, value in data.items():
            if name in self.budget:
                try:
                    replace(self.spec, **{name: value})
                    kept[name] = value
                except BadSpec:
                    continue
        return kept

    def call(self, work: Callable[[], Any]) -> Steps[Any]:
        """Run `work` beside the owner's word. Raises Stopped when stop was said, whatever the work answered."""
        if self.cancel.is_set():
            raise Stopped
        future = self.pool.submit(work)
        while not future.done():
            wait([future], timeout=POLL)
            yield from self.poll()
        if self.cancel.is_set():
            raise Stopped
        return future.result()

    def between(self) -> Iterator[Emitted]:
        """Between steps: hear the owner; while paused, wait. Raises Stopped."""
        yield from self.poll()
        while self.paused and not self.cancel.is_set():
            time.sleep(POLL)
            yield from self.poll()
        if self.cancel.is_set():
            raise Stopped

    # ---- the script ----

    def run(self) -> Iterator[Emitted]:
        if self.past(events.SessionEnded):
            return
        try:
            yield from self._run()
        finally:
            self._close()

    def _run(self) -> Iterator[Emitted]:
        state, code, line = "done", "", None
        try:
            yield from self._begin()
            reason = yield from self._work()
        except Stopped:
            state, reason = "stopped", "Stopped by the owner."
        except SessionRefused as e:
            state, reason, code, line = "refused", e.reason, e.code, e.line
        except HardwareError as e:
            state, reason, code = "refused", str(e), "hardware"
        except Exception as e:
            logger.exception("the session failed")
            state, reason, code = "failed", f"The engine made a mistake ({type(e).__name__}: {e}).", "engine_error"
        best = {e.cls: e.trial for e in self.log if isinstance(e, events.TrialJudged) and e.best}
        made = sum(isinstance(e, events.TrialProposed) for e in self.log)
        seconds = self.earlier + time.monotonic() - self.began
        yield from self.emit(events.SessionEnded(state, reason, best, made, seconds, code, line))

    def _close(self) -> None:
        self.cancel.set()
        device = self.device
        if device is not None:
            self.pool.submit(_quietly, device.close)
        self.pool.shutdown(wait=True)

    def _begin(self) -> Iterator[Emitted]:
        """The first event, before anything can go wrong; then the device's own word for itself."""
        refused = None
        described: dict[str, Any] = {"name": self.spec.device, "kind": "", "hardware": ""}
        try:
            from engine.devices import registry

            self.device = registry.get(
                self.spec.device if self.wanted is None else self.wanted, local_user=self.local_user
            )
            described = {**self.device.describe(), "name": self.device.name, "kind": self.device.kind}
            described["hardware"] = self.device.hardware
        except (SessionRefused, HardwareError) as e:
            refused = e
        spec = self.spec
        resumed = bool(self.log)
        yield from self.emit(
            events.SessionStarted(
                spec.title, events.blob_name(spec.source), spec.source_kind, described, spec.strategy,
                list(spec.classes), spec.budget, spec.seed,
            ),
            spec.source,
        )  # fmt: skip
        if resumed:
            yield from self.emit(events.Resumed(f"Taken up again after event {len(self.log)}."))
        if refused:
            raise refused
        if spec.strategy not in NAMES:
            raise SessionRefused("no_strategy", f"there is no strategy {spec.strategy!r}; there are {', '.join(NAMES)}")

    def _work(self) -> Steps[str]:
        yield from self.between()
        spec, device = self.spec, self.device
        graph = yield from self._trace()
        hardware = load_hardware(device.hardware)
        if device.kind == "measured":  # the second roof is this very machine's, where it was probed
            from engine.devices import ceilings

            hardware = ceilings.known(hardware)
        problem = Problem(spec.source, spec.source_kind, graph, spec.seed)
        yield from self._report(graph, hardware)
        strategy = load(spec.strategy)(problem, spec.classes, hardware, device.kind, spec.seed)
        for note in strategy.notes:
            yield from self.emit(events.Progress(note, "plan"))
        covered = getattr(strategy, "covered", None)
        if covered is not None:  # of a module that is not one program: what is, and what stays PyTorch
            yield from self.emit(covered)
        # A guarded program of class tf32 is held to the roof of f16 (engine.classes.roof_of).
        roofs = dict.fromkeys([*strategy.classes, *(["f16"] if "tf32" in strategy.classes else [])])
        limits = {c: t_sol(graph, hardware, c) for c in roofs}
        context = trials.Context(
            device, strategy, hardware, limits, {}, self.emit, self.call,
            lambda kind, number: self.past(kind, number), algebraic=spec.algebraic,
        )  # fmt: skip
        yield from self.between()
        what = "the GPU" if device.kind == "measured" else f"the model of {hardware.title}"
        yield from self.emit(events.Progress(f"Getting {what} ready", "open"))
        yield from self.call(lambda: device.open(problem, self.cancel.is_set))
        self._prefetch(strategy, State(budget=self.budget["trials"]), context)
        yield from self._baselines(strategy, context)
        try:
            reason = yield from self._search(strategy, context)
        except Stopped:
            self._remember(strategy, graph, hardware)
            raise
        self._remember(strategy, graph, hardware)
        if spec.compile:
            yield from self._compiled(strategy)
        return reason

    def _remember(self, strategy: Strategy, graph: OpGraph, hardware: Hardware) -> None:
        """What was measured here teaches the next problem of this machine. Predictions teach nothing, nor does a
        mistake of ours, and a pasted program's structures are its author's."""
        if not self.teaches or self._is_program or not hasattr(strategy, "learned"):
            return
        told = {e.trial for e in self.log if isinstance(e, events.TrialJudged) and e.kind == "measured"}
        if not told:
            return
        faults = (*trials.LOST, "engine_error")
        told |= {e.trial for e in self.log if isinstance(e, events.TrialFailed) and e.code not in faults}
        ended = tuple(t for t in self.ended if t.number in told)
        try:
            memory.keep(hardware.name, strategy.learned(ended, memory.session_of(graph)))
        except Exception:  # it must not cost a session that is done
            logger.exception("what the session measured was not kept")

    def _trace(self) -> Steps[OpGraph]:
        known = self.past(events.Traced)
        if known:
            return OpGraph.from_json(self.blob(known.graph))
        yield from self.emit(
            events.Progress("Reading the program" if self._is_program else "Tracing the module", "trace")
        )
        t = time.perf_counter()
        yield from self.call(self._warm)
        graph, title = yield from self.call(self._graph)
        text, title = graph.to_json(), title if self.spec.title == UNTITLED else ""
        traced = events.Traced(events.blob_name(text), len(graph.ops), time.perf_counter() - t, title)
        yield from self.emit(traced, text)
        return graph

    def _warm(self) -> None:
        """A device that can start its workers ahead does so while the module is traced."""
        warm = getattr(self.device, "warm", None)
        if warm is not None:
            warm(self.spec.source_kind)

    @property
    def _is_program(self) -> bool:
        return self.spec.source_kind == "program"

    def _graph(self) -> tuple[OpGraph, str]:
        """The graph and a title."""
        if self._is_program:
            checked = check(self.spec.source)
            if not checked.ok:
                d = trials.root_cause(checked.diagnostics)
                help = f" Help: {d.help}." if d.help else ""
                raise SessionRefused(d.code, f"Line {d.span.line}: {d.message}.{help}", d.span.line)
            return program_graph.graph_of(checked.program), ""
        from engine.trace import trace

        traced = trace(self.spec.source, cancelled=self.cancel.is_set, local_user=self.local_user)
        return traced.graph, traced.title

    def _report(self, graph: OpGraph, hardware: Hardware) -> Iterator[Emitted]:
        if self.past(events.Reported):
            return
        made = report(graph, hardware)
        bounds = {cls: b["ms"] for cls, b in made.bounds.items()}
        text = made.to_json()
        yield from self.emit(events.Reported(events.blob_name(text), bounds, made.sentence), text)

    def _baselines(self, strategy: Strategy, context: trials.Context) -> Iterator[Emitted]:
        """PyTorch's own times; done once the log holds any trial or says that the search began."""
        searching = events.Progress("Searching", "search")
        if not self._known(searching):
            yield from self.emit(events.Progress("Timing PyTorch", "baselines"))
            found = self.device.baselines(strategy.classes)
            while True:
                baseline = yield from self.call(lambda: next(found, None))
                if baseline is None:
                    break
                yield from self.emit(baseline)
            yield from self.emit(searching)
        for e in self.log:
            if isinstance(e, events.Baseline) and (
                e.cls not in context.baselines or _rank(e) < _rank(context.baselines[e.cls])
            ):
                context.baselines[e.cls] = e

    def _compiled(self, strategy: Strategy) -> Iterator[Emitted]:
        """torch.compile's times, where the device takes times and does not know them yet."""
        take = getattr(self.device, "compiled", None)
        if take is None:
            return
        yield from self.emit(events.Progress("Timing torch.compile, which takes minutes", "compiled"))
        found = take(strategy.classes)
        while (baseline := (yield from self.call(lambda: next(found, None)))) is not None:
            yield from self.emit(baseline)

    def _search(self, strategy: Strategy, context: trials.Context) -> Steps[str]:
        ended: list[Finished] = []
        closed: dict[str, str] = {}
        while True:
            number = len(ended) + 1
            proposed = self.past(events.TrialProposed, number)
            if proposed is None:
                yield from self.between()
                for cls in strategy.classes:
                    why = self._enough(cls, ended, context)
                    closed.pop(cls, None)
                    if why:
                        closed[cls] = why
                state = State(tuple(ended), self.budget["trials"], dict(closed))
                proposal = self._owners(ended, context, strategy)
                if proposal is None:
                    if sum(t.by == "strategy" for t in ended) >= self.budget["trials"]:
                        return self._summary(f"The budget of {count(self.budget['trials'], 'trial')} is used up.")
                    yield from self._screen(number, state, strategy, context)
                    proposal = strategy.next(replace(state, quick=self._quick()))
                if proposal is None:
                    why = "; ".join(f"{c}: {why}" for c, why in closed.items()) or "there is nothing left to try"
                    return self._summary(f"The search is over: {why}.")
                roof = trials.limiting(proposal.text, proposal.cls)
                yield from self.emit(
                    events.TrialProposed(
                        number, proposal.cls, events.blob_name(proposal.text), proposal.backend, proposal.change,
                        proposal.why, proposal.parent, proposal.predicted_ms, proposal.by,
                        roof if roof != proposal.cls else "",
                    ),
                    proposal.text,
                )  # fmt: skip
            else:
                proposal = Proposal(
                    self.blob(proposed.program), proposed.cls, proposed.backend, proposed.change, proposed.why,
                    proposed.parent, proposed.predicted_ms, proposed.by,
                )  # fmt: skip
            done = State(tuple(ended))
            best = done.best(proposal.cls)
            context.beside = trials.standing(done.standing(proposal.cls).values())
            ended.append((yield from trials.run(number, proposal, context, best.ms if best else None)))
            self.ended = ended
            self._prefetch(strategy, State(tuple(ended), self.budget["trials"], dict(closed)), context)

    def _screen(self, number: int, state: State, strategy: Strategy, context: trials.Context) -> Iterator[Emitted]:
        """Where the device times quickly: the strategy's next candidates a few calls each, before trial `number`."""
        if not hasattr(self.device, "quick") or not hasattr(strategy, "screen") or self.past(events.Screened, number):
            return
        state = replace(state, quick=self._quick())
        wanted = [p for p in strategy.screen(state) if p.cls in context.baselines]
        if not wanted:
            return
        began, quick = time.perf_counter(), {}
        yield from self.emit(events.Progress(f"Choosing among {count(len(wanted), 'candidate')}", "screen", number))
        for cls in dict.fromkeys(p.cls for p in wanted):
            context.beside = trials.standing(state.standing(cls).values())
            made = []
            for p in (p for p in wanted if p.cls == cls):
                quick[events.blob_name(p.text)] = None
                with contextlib.suppress(TrialError):
                    made.append((p.text, trials.candidate(number, p, context)))
            self.device.prefetch([c for _, c in made])
            times = yield from self.call(lambda made=made, cls=cls: self.device.quick(
                [c for _, c in made], context.baselines[cls]
            ))  # fmt: skip
            quick |= {events.blob_name(text): ms for (text, _), ms in zip(made, times, strict=True)}
        texts = [p.text for p in wanted]
        yield from self.emit(events.Screened(number, quick, time.perf_counter() - began), *texts)

    def _quick(self) -> dict[str, float | None]:
        """Program -> quick time, of all that the log holds."""
        held = [e for e in self.log if isinstance(e, events.Screened)]
        return {self.blob(name): ms for e in held for name, ms in e.quick.items()}

    def _owners(self, ended: list[Finished], context: trials.Context, strategy: Strategy) -> Proposal | None:
        """The owner's next program: the n-th `try` of the log is the n-th trial by the owner."""
        tries = [e for e in self.log if isinstance(e, events.Controlled) and e.action == "try"]
        done = sum(t.by == "owner" for t in ended)
        if done >= len(tries):
            return None
        text = self.blob(tries[done].data["program"])
        checked = check(text)
        cls = program_graph.class_of(checked.program) if checked.ok else strategy.classes[0]
        backend = trials.backend_of(text, context.sms)
        return Proposal(text, cls, backend, "your program", "tried by the owner", by="owner")

    def _enough(self, cls: str, ended: list[Finished], context: trials.Context) -> str | None:
        """Why the class needs no further trial (sol.budget), or None. The owner's own trials count for the best."""
        best, since, fastest = None, 0, ""
        for t in ended:
            if t.cls == cls:
                if t.ms is not None and t.clean and (best is None or t.ms < best):
                    best, since, fastest = t.ms, 0, t.text
                else:
                    since += 1
        baseline = context.baselines.get(cls)
        limit = context.limits[trials.limiting(fastest, cls)]
        return budget.should_stop(
            best, baseline.time.ms if baseline else None, limit, since, self.budget["eps"],
            self.budget["window"],
        )  # fmt: skip

    def _prefetch(self, strategy: Strategy, state: State, context: trials.Context) -> None:
        """Tell a device that builds ahead what may come; a hint, so nothing that goes wrong here matters."""
        if self.device.kind != "measured" or self.cancel.is_set():
            return
        wanted = []
        for i, proposal in enumerate(strategy.upcoming(state)[:PREFETCH]):
            try:
                wanted.append(trials.candidate(len(state.trials) + 1 + i, proposal, context))
            except TrialError:
                continue
        self.device.prefetch(wanted)

    def _summary(self, why: str) -> str:
        best = {e.cls: e for e in self.log if isinstance(e, events.TrialJudged) and e.best}
        if not best:
            return f"{why} No trial gave a right result."
        why = " ".join([why, *(f"{e.text}." for e in self.log if isinstance(e, events.Progress) and e.step == "plan")])
        found = ", ".join(
            f"{cls}: {e.ms:.3g} ms {e.kind}, {e.speedup:.2f}x {baseline_name(e.baseline)}" for cls, e in best.items()
        )
        return f"{why} Best in {found}."


def _rank(b: events.Baseline) -> int:
    """Among baselines of one class the plainest stands: eager before compiled."""
    return "compile" in b.name


def _quietly(work: Callable[[], None]) -> None:
    try:
        work()
    except Exception:
        logger.exception("the device did not close cleanly")


__all__ = ["BadSpec", "Control", "Emitted", "SessionSpec", "run"]
