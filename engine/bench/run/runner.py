"""Run a bench: one session per problem, folded into the results file.

Each session is as a page starts it: the same strategy, budget, screening and checks (engine.session.runner), with two
differences: its strategy's memory is the repository's results without the problem's own, and its measurements teach
nothing. So a bench gives the results of a stranger's module, the same on every machine.

Each evaluator has one session at a time, in a thread of its own, and takes the next problem when that has ended. On
several GPUs each GPU has a process that does this (engine.bench.run.processes).
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Protocol

from engine.bench.run import fold, session_log, shards
from engine.bench.run.ahead import LookAhead
from engine.bench.run.crew import Crew
from engine.bench.run.request import Request
from engine.bench.run.results_file import ResultsFile
from engine.bench.run.session_log import SessionLog
from engine.build import toolchain
from engine.devices import SessionRefused
from engine.evaluate.evaluator import Evaluator
from engine.session import events
from engine.session import runner as sessions
from engine.session.spec import SessionSpec
from engine.strategies import registry
from engine.suite.cases import PROBLEMS


class TimeIsUp(BaseException):
    """The given time is over, or the bench is interrupted. It is no Exception, so it passes through the session, which
    a later call continues."""


class Work(Protocol):
    """The problems that wait, and where their results go. `path`: of the results file, beside which the sessions' logs
    are. Called by one thread at a time."""

    path: Path | None

    def take(self) -> str | None:
        """The next module; None if no more waits."""

    def put(self, module: str, row: dict) -> None:
        """The row of a session that ended, whose log is not needed any more."""

    def say(self, line: str) -> None:
        """A line for the person who started the bench."""


class Here:
    """The work of a bench in one process. See Work. `todo`: modules that no session has taken yet."""

    def __init__(self, todo: list[str], results: ResultsFile, say: Callable[[str], None]):
        self.todo, self.results, self.path, self._say = todo, results, results.path, say

    def take(self) -> str | None:
        return self.todo.pop(0) if self.todo else None

    def put(self, module: str, row: dict) -> None:
        self.results.put(module, row)
        session_log.drop(self.path, module)

    def say(self, line: str) -> None:
        self._say(line)


def run(
    request: Request, evaluators: Sequence[Evaluator], out: Path | None, say: Callable[[str], None], at_once: int = 1
) -> ResultsFile:
    """Run every session that the results file lacks, as many at a time as there are evaluators. `say` gets a line for
    each trial and each end. `at_once`: evaluators on each GPU; with several, nothing is prepared ahead. Raises
    BadResults, BadSpec, OSError."""
    results = ResultsFile(out, request.settings)
    results.about |= about(evaluators[0], len(evaluators) // at_once) | about_sessions(at_once)
    try:
        late = play(request, evaluators, Here(todo(request, results, len(evaluators)), results, say), at_once)
    finally:
        results.write()
    if late:
        say(stopped(request))
    return results


def trace_early(at_once: int) -> None:
    """Let what traces the first modules import PyTorch while the evaluators do, which takes as long."""
    from engine.trace import warm

    def work() -> None:
        with contextlib.suppress(SessionRefused):  # the first session says it
            warm(local_user=True, many=at_once)

    threading.Thread(target=work, daemon=True, name="warm tracing").start()


def stopped(request: Request) -> str:
    """What a person reads of a bench whose time was over."""
    return f"stopped after {request.seconds:.0f} s; the same command continues"


def todo(request: Request, results: ResultsFile, at_once: int) -> list[str]:
    """The problems whose sessions the results lack. Of this repository's, where several run at a time, the longest come
    first; those of a person's own folder in an order whose beginning is an even sample, for a bench that its time
    ends."""
    modules = []
    for module in request.problems if request.folder == PROBLEMS else shards.evenly(request.problems):
        if results.finished(module, request.sha256(module)):
            session_log.drop(results.path, module)  # of a bench that was killed between the two
        else:
            modules.append(module)
    if at_once > 1:
        known = shards.weights()
        modules.sort(key=lambda module: -known.get(module, 0.0))
    return modules


def play(request: Request, evaluators: Sequence[Evaluator], work: Work, at_once: int = 1) -> bool:
    """Run sessions on each evaluator until no work is left. True if the request's time was over before. Raises the
    first error of a session that broke."""
    bench = _Bench(request, work, ahead=at_once == 1)
    crew = Crew()
    try:
        for evaluator in evaluators:
            crew.start(bench.work_on, evaluator)
        crew.wait()
    finally:
        bench.stop.set()
        crew.wait()
    if bench.errors:
        raise bench.errors[0]
    return bench.late


def about(evaluator: Evaluator, gpus: int = 1) -> dict:
    """The machine of the sessions. `gpus`: how many of its GPUs were used."""
    described = evaluator.describe()
    return {
        "toolchain": toolchain.find().versions(), "torch": toolchain.find().versions()["torch"],
        "device": evaluator.name, "kind": evaluator.kind, "hardware": evaluator.hardware,
        "gpu": described.get("gpu"), "driver": described.get("driver"), "gpus": gpus,
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }  # fmt: skip


def about_sessions(at_once: int) -> dict:
    """What the sessions of a bench remember, and how many run at a time on each GPU, if several do."""
    memory = {"memory": "this repository's results without those of the problem itself", "teaches": False}
    return memory | ({"at_once": at_once} if at_once > 1 else {})


def frozen_memory(spec: SessionSpec, evaluator: Evaluator, pid: str) -> str:
    """The strategy's memory: the repository's results without those of the problem `pid`. "" if the strategy remembers
    nothing."""
    if not registry.available()[spec.strategy].remembers:
        return ""
    from engine.strategies.planner import memory

    return memory.committed(evaluator.hardware, evaluator.hw.sms).without(pid).to_text()


class _Bench:
    """`ahead`: each player prepares its next problem. `errors`: of sessions that broke; `late`: the time was over."""

    def __init__(self, request: Request, work: Work, ahead: bool):
        self.request, self.work, self.ahead = request, work, ahead
        self.until = time.monotonic() + request.seconds
        self.stop, self.late = threading.Event(), False
        self.errors: list[BaseException] = []
        self.players: list[_Player] = []
        self._lock = threading.Lock()

    def work_on(self, evaluator: Evaluator) -> None:
        """Run sessions on one evaluator until none is left. In a thread of its own."""
        player = _Player(self, evaluator)
        self.players.append(player)
        try:
            while (module := self.next(player)) is not None:
                player.play(module)
        except TimeIsUp:
            self.late = self.late or not self.stop.is_set()
        except BaseException as e:
            self.errors.append(e)
            self.stop.set()
        finally:
            player.ahead.end()

    def next(self, player: _Player) -> str | None:
        """The problem that the player prepared, or the next one, or one that another player only prepares."""
        with self._lock:
            module, player.following = player.following, None
            if module is None:
                module = self.work.take()
            for one in self.players if module is None else ():
                if one.following is not None:
                    module, one.following = one.following, None
                    break
            return module

    def reserve(self, player: _Player) -> str | None:
        """The problem that the player runs next, unless another one has nothing to do before that."""
        with self._lock:
            player.following = self.work.take()
            return player.following

    def say(self, line: str) -> None:
        with self._lock:
            self.work.say(line)

    def put(self, module: str, row: dict) -> None:
        with self._lock:
            self.work.put(module, row)

    def look_at_the_clock(self) -> None:
        """Raises TimeIsUp."""
        if self.stop.is_set() or time.monotonic() >= self.until:
            raise TimeIsUp


class _Player:
    """One evaluator's sessions, one after the other. `following`: the problem that it prepares meanwhile."""

    def __init__(self, bench: _Bench, evaluator: Evaluator):
        self.bench, self.evaluator = bench, evaluator
        self.ahead = LookAhead(evaluator)
        self.following: str | None = None

    def play(self, module: str) -> None:
        """Run one problem's session to its end. Raises TimeIsUp."""
        bench = self.bench
        bench.look_at_the_clock()
        pid, spec = bench.request.problems[module], bench.request.session(module)
        memory = frozen_memory(spec, self.evaluator, pid)
        log = SessionLog(session_log.beside(bench.work.path, module), spec, memory)
        owner = _Owner(bench, log)
        self.evaluator.out_of_time = lambda: owner.ended
        self._warm()
        try:
            session = sessions.run(
                spec, device=self.evaluator, history=log.history, read_blob=log.blobs.__getitem__,
                control=owner.commands, began=time.time() - log.seconds, local_user=True, teaches=False,
                memory=memory, compiling=bench.request.compiling,
            )  # fmt: skip
            for emitted in session:
                log.add(emitted)
                if fold.searching(emitted.event):
                    self._look_ahead()
                if line := _line(module, emitted.event):
                    bench.say(line)
            sha256 = bench.request.sha256(module)
            row = fold.row_of(pid, log.emitted, log.blobs) | ({"sha256": sha256} if sha256 else {})
            bench.put(module, row)
        finally:
            log.close()
            self.ahead.end()

    def _look_ahead(self) -> None:
        if not self.bench.ahead:
            return
        following = self.bench.reserve(self)
        if following is not None:
            spec = self.bench.request.session(following)
            pid = self.bench.request.problems[following]
            self.ahead.begin(spec, frozen_memory(spec, self.evaluator, pid))

    def _warm(self) -> None:
        """Let the workers of the next session import while this one ends, as the app's engine does."""
        from engine.trace import warm as warm_tracing

        warm_tracing(local_user=True)
        self.evaluator.warm()


class _Owner:
    """Who starts a session of the bench: sends no commands until the time is over, and ends a search that takes longer
    than the request allows by a budget of the trials that it has. A search that has no right one yet gets the time once
    more, and every search has at least one trial. `ended`: whether it has ended the search."""

    def __init__(self, bench: _Bench, log: SessionLog):
        self.bench, self.log = bench, log
        self._searched: float | None = None  # when the search began, by the monotonic clock
        self.ended = any(isinstance(e.event, events.Controlled) for e in log.emitted)

    def commands(self) -> tuple:
        self.bench.look_at_the_clock()
        most = self.bench.request.search_seconds
        if most is None or self.ended:
            return ()
        if self._searched is None:
            began = next((e.t for e in self.log.emitted if fold.searching(e.event)), None)
            if began is not None:  # in a session that goes on, some time ago
                self._searched = time.monotonic() - (self.log.emitted[-1].t - began)
        spent = 0.0 if self._searched is None else time.monotonic() - self._searched
        if spent < most or (spent < 2 * most and not self._of(events.TrialJudged)):
            return ()
        self.ended = True
        return (("budget", {"trials": max(1, self._of(events.TrialProposed) + self._choosing())}),)

    def _choosing(self) -> bool:
        """Return True while the next trial is chosen by quick times."""
        for e in reversed(self.log.emitted):
            if isinstance(e.event, events.TrialProposed):
                return False
            if isinstance(e.event, events.Screened) or (
                isinstance(e.event, events.Progress) and e.event.step == "screen"
            ):
                return True
        return False

    def _of(self, kind: type[events.Event]) -> int:
        return sum(isinstance(e.event, kind) for e in self.log.emitted)


def _line(module: str, event: events.Event) -> str:
    """A trial's end, or the session's, in one line."""
    if isinstance(event, events.TrialJudged):
        mark = "" if event.kind == "measured" else "~"
        best = "  best so far" if event.best else "" if event.verdict == "clean" else f"  {event.verdict}"
        time_ = f"{mark}{event.ms:9.4f} ms, {event.speedup:5.2f}x {event.baseline}, gap {event.gap:4.2f}"
        return f"{module:34} {event.cls:5} trial {event.trial:2}  {time_}{best}"
    if isinstance(event, events.TrialFailed):
        return f"{module:34}       trial {event.trial:2}  {event.step}: {event.reason[:140]}"
    if isinstance(event, events.SessionEnded):
        return f"{module:34} {event.state} after {event.seconds:.0f} s: {event.reason[:200]}"
    return ""
