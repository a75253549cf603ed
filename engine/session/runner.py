"""One session: strategy x device x budget -> a stream of events. `run` is all that anybody outside calls.

A session is a script whose every step is named by what it would log. Given the log so far it plays the script
again: steps in the log are not emitted twice and, unless a later step needs what they left in the device, not done
twice. That is all there is to resuming; no other state survives a lost engine.

The script is here; its log and the owner's word are engine.session.journal's, its trials engine.session.search's. The
caller's generator thread runs the script and polls the owner's word; every call into the device runs in one thread
beside it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from dsl.check.program import check
from engine.devices import Device, Problem, SessionRefused
from engine.session import events, trial
from engine.session.journal import Control, Journal, Owner
from engine.session.search import Ending, Search
from engine.session.spec import UNTITLED, BadSpec, SessionSpec
from engine.session.trial import Emitted, Steps, Stopped
from engine.strategies import NAMES, Strategy, load
from engine.strategies.planner import memory
from engine.strategies.planner.lowering import program_graph
from sol.bounds import pytorch_class, t_sol
from sol.graph import OpGraph
from sol.hardware import Hardware, HardwareError
from sol.hardware import load as load_hardware
from sol.report import report

logger = logging.getLogger(__name__)


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
    journal = Journal((e for _, e in history), read_blob, now)
    earlier = 0.0 if began is None else max(0.0, now() - began)
    yield from _Session(spec, device, journal, control, earlier, local_user, teaches).run()


class _Session:
    def __init__(
        self, spec: SessionSpec, device: Any, journal: Journal, control: Control, earlier: float, local_user: bool,
        teaches: bool,
    ):  # fmt: skip
        self.spec, self.wanted, self.local_user, self.teaches = spec, device, local_user, teaches
        self.journal, self.owner = journal, Owner(spec, journal, control)
        self.emit, self.past, self.call = journal.emit, journal.past, self.owner.call
        self.earlier = earlier  # seconds of engines that were lost
        self.began = time.monotonic()
        self.device: Device | None = None
        self.closed: list[dict[str, Any]] = []  # of events.SessionEnded

    # ---- the script ----

    def run(self) -> Iterator[Emitted]:
        if self.past(events.SessionEnded):
            return
        try:
            yield from self._run()
        finally:
            self._close()

    def _run(self) -> Iterator[Emitted]:
        state, line, covered = "done", None, []
        try:
            yield from self._begin()
            ending = yield from self._work()
            code, reason = ending.code, ending.reason
        except Stopped:
            state, code, reason = "stopped", "stopped", "Stopped by the owner."
        except SessionRefused as e:
            state, reason, code, line = "refused", e.reason, e.code, e.line
            covered = [{"kind": kind, "names": names} for kind, names in e.covered]
        except HardwareError as e:
            state, reason, code = "refused", str(e), "hardware"
        except Exception as e:
            logger.exception("the session failed")
            state, reason, code = "failed", f"The engine made a mistake ({type(e).__name__}: {e}).", "engine_error"
        best = {e.cls: e.trial for e in self.journal.of(events.TrialJudged) if e.best}
        made = len(self.journal.of(events.TrialProposed))
        seconds = self.earlier + time.monotonic() - self.began
        yield from self.emit(events.SessionEnded(state, reason, best, made, seconds, code, line, self.closed, covered))

    def _close(self) -> None:
        self.owner.close(self.device.close if self.device is not None else None)

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
        resumed = bool(self.journal.log)
        yield from self.emit(
            events.SessionStarted(
                spec.title, events.blob_name(spec.source), spec.source_kind, described, spec.strategy,
                list(spec.classes), spec.budget, spec.seed, spec.algebraic,
            ),
            spec.source,
        )  # fmt: skip
        if resumed:
            yield from self.emit(events.Resumed(f"Taken up again after event {len(self.journal.log)}."))
        if refused:
            raise refused
        if spec.strategy not in NAMES:
            raise SessionRefused("no_strategy", f"there is no strategy {spec.strategy!r}; there are {', '.join(NAMES)}")

    def _work(self) -> Steps[Ending]:
        yield from self.owner.between()
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
            yield from self.emit(note)
        covered = getattr(strategy, "covered", None)
        if covered is not None:  # of a module that is not one program: what is, and what stays PyTorch
            yield from self.emit(covered)
        # A guarded program of class tf32 is held to the roof of f16 (engine.classes.roof_of).
        roofs = dict.fromkeys([*strategy.classes, *(["f16"] if "tf32" in strategy.classes else [])])
        limits = {c: t_sol(graph, hardware, c) for c in roofs}
        context = trial.Context(
            device, strategy, hardware, limits, {}, self.emit, self.call, self.past, algebraic=spec.algebraic,
        )  # fmt: skip
        yield from self.owner.between()
        what = "the GPU" if device.kind == "measured" else f"the model of {hardware.title}"
        yield from self.emit(events.Progress(f"Getting {what} ready", "open"))
        yield from self.call(lambda: device.open(problem, self.owner.stop.is_set))
        search = Search(self.journal, self.owner, strategy, context)
        search.prefetch()
        yield from self._baselines(strategy, context, graph)
        try:
            ending = yield from search.run()
        except Stopped:
            self._remember(search, graph)
            raise
        self._remember(search, graph)
        if spec.compile:
            yield from self._compiled(strategy)
        self.closed = search.closed_data
        return ending

    def _remember(self, search: Search, graph: OpGraph) -> None:
        """What was measured here teaches the next problem of this machine. Predictions teach nothing, nor does a
        mistake of ours, and a pasted program's structures are its author's."""
        if not self.teaches or self._is_program or not hasattr(search.strategy, "learned"):
            return
        told = {e.trial for e in self.journal.of(events.TrialJudged) if e.kind == "measured"}
        if not told:
            return
        faults = (*trial.LOST, "engine_error")
        told |= {e.trial for e in self.journal.of(events.TrialFailed) if e.code not in faults}
        ended = tuple(t for t in search.ended if t.number in told)
        try:
            memory.keep(search.context.hardware.name, search.strategy.learned(ended, memory.session_of(graph)))
        except Exception:  # it must not cost a session that is done
            logger.exception("what the session measured was not kept")

    def _trace(self) -> Steps[OpGraph]:
        known = self.past(events.Traced)
        if known:
            return OpGraph.from_json(self.journal.blob(known.graph))
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
                d = trial.root_cause(checked.diagnostics)
                help = f" Help: {d.help}." if d.help else ""
                raise SessionRefused(d.code, f"Line {d.span.line}: {d.message}.{help}", d.span.line)
            return program_graph.graph_of(checked.program), ""
        from engine.trace import trace

        traced = trace(self.spec.source, cancelled=self.owner.stop.is_set, local_user=self.local_user)
        return traced.graph, traced.title

    def _report(self, graph: OpGraph, hardware: Hardware) -> Iterator[Emitted]:
        if self.past(events.Reported):
            return
        made = report(graph, hardware, asked=self.spec.classes)
        bounds = {cls: b["ms"] for cls, b in made.bounds.items()}
        text = made.to_json()
        yield from self.emit(events.Reported(events.blob_name(text), bounds, made.sentence), text)

    def _baselines(self, strategy: Strategy, context: trial.Context, graph: OpGraph) -> Iterator[Emitted]:
        """PyTorch's own times; done once the log holds any trial or says that the search began."""
        searching = events.Progress("Searching", "search")
        if not self.journal.holds(searching):
            yield from self.emit(events.Progress("Timing PyTorch", "baselines"))
            found = self.device.baselines(strategy.classes)
            while True:
                baseline = yield from self.call(lambda: next(found, None))
                if baseline is None:
                    break
                yield from self.emit(baseline)
            yield from self.emit(searching)
        for e in self.journal.of(events.Baseline):
            if e.cls not in context.baselines or _rank(e) < _rank(context.baselines[e.cls]):
                context.baselines[e.cls] = e
        for cls in strategy.classes:  # PyTorch has no fp8 of its own
            theirs = context.baselines.get(pytorch_class(cls, graph))
            if theirs is not None:
                context.baselines.setdefault(cls, theirs)

    def _compiled(self, strategy: Strategy) -> Iterator[Emitted]:
        """torch.compile's times, where the device takes times and does not know them yet."""
        take = getattr(self.device, "compiled", None)
        if take is None:
            return
        yield from self.emit(events.Progress("Timing torch.compile, which takes minutes", "compiled"))
        found = take(strategy.classes)
        while (baseline := (yield from self.call(lambda: next(found, None)))) is not None:
            yield from self.emit(baseline)


def _rank(b: events.Baseline) -> int:
    """Among baselines of one class the plainest stands: eager before compiled."""
    return "compile" in b.name


__all__ = ["BadSpec", "Control", "Emitted", "SessionSpec", "run"]
