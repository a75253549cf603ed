"""Run a bench: one session per problem, one after the other on one evaluator, folded into the results file.

Each session is as a page starts it: the same strategy, budget, screening and checks (engine.session.runner), with two
differences: its strategy's memory is the repository's results without the problem's own, and its measurements teach
nothing. So a bench gives the results of a stranger's module, the same on every machine.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

from engine.bench.run import fold
from engine.bench.run.ahead import LookAhead
from engine.bench.run.request import Request
from engine.bench.run.results_file import ResultsFile
from engine.bench.run.session_log import SessionLog
from engine.build import toolchain
from engine.evaluate.evaluator import Evaluator
from engine.session import events
from engine.session import runner as sessions
from engine.session.spec import SessionSpec
from engine.strategies import registry


class TimeIsUp(BaseException):
    """The given time is over. It is no Exception, so it passes through the session, which a later call continues."""


def run(request: Request, evaluator: Evaluator, out: Path | None, say: Callable[[str], None]) -> ResultsFile:
    """Run every session that the results file lacks. `say` gets a line for each trial and each end. Raises BadResults,
    BadSpec, OSError."""
    results = ResultsFile(out, request.settings)
    results.about |= about(evaluator)
    bench = _Bench(request, evaluator, results, say)
    todo = [module for module in request.problems if not results.finished(module)]
    try:
        for module, following in itertools.zip_longest(todo, todo[1:]):
            bench.play(module, following)
    except TimeIsUp:
        say(f"stopped after {request.seconds:.0f} s; the same command continues")
    finally:
        bench.ahead.end()
        results.write()
    return results


def about(evaluator: Evaluator) -> dict:
    """The machine of the sessions."""
    described = evaluator.describe()
    return {
        "toolchain": toolchain.find().versions(), "torch": toolchain.find().versions()["torch"],
        "device": evaluator.name, "kind": evaluator.kind, "hardware": evaluator.hardware,
        "gpu": described.get("gpu"), "driver": described.get("driver"),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }  # fmt: skip


def frozen_memory(spec: SessionSpec, evaluator: Evaluator, pid: str) -> str:
    """The strategy's memory: the repository's results without those of the problem `pid`. "" if the strategy remembers
    nothing."""
    if not registry.available()[spec.strategy].remembers:
        return ""
    from engine.strategies.planner import memory

    return memory.committed(evaluator.hardware, evaluator.hw.sms).without(pid).to_text()


class _Bench:
    def __init__(self, request: Request, evaluator: Evaluator, results: ResultsFile, say: Callable[[str], None]):
        self.request, self.evaluator, self.results, self.say = request, evaluator, results, say
        self.until = time.monotonic() + request.seconds
        self.ahead = LookAhead(evaluator)

    def play(self, module: str, following: str | None) -> None:
        """Run one problem's session to its end, while the `following` one is prepared. Raises TimeIsUp."""
        self._look_at_the_clock()
        pid, spec = self.request.problems[module], self.request.session(module)
        memory = frozen_memory(spec, self.evaluator, pid)
        log = SessionLog(self._beside(), spec, memory)
        self._warm()
        finished = False
        try:
            session = sessions.run(
                spec, device=self.evaluator, history=log.history, read_blob=log.blobs.__getitem__,
                control=self._look_at_the_clock, began=time.time() - log.seconds, local_user=True, teaches=False,
                memory=memory,
            )  # fmt: skip
            for emitted in session:
                log.add(emitted)
                if isinstance(emitted.event, events.Progress) and emitted.event.step == "search":
                    self._look_ahead(following)
                if line := _line(module, emitted.event):
                    self.say(line)
            self.results.put(module, fold.row_of(pid, log.emitted, log.blobs))
            finished = True
        finally:
            log.close(finished=finished)
            self.ahead.end()

    def _look_ahead(self, following: str | None) -> None:
        if following is not None:
            spec = self.request.session(following)
            self.ahead.begin(spec, frozen_memory(spec, self.evaluator, self.request.problems[following]))

    def _look_at_the_clock(self) -> tuple:
        """Act as the owner of a session, who sends no commands until the time is over."""
        if time.monotonic() >= self.until:
            raise TimeIsUp
        return ()

    def _beside(self) -> Path | None:
        """The path of the current session's log."""
        path = self.results.path
        return None if path is None else path.with_name(f"{path.name}.session")

    def _warm(self) -> None:
        """Let the workers of the next session import while this one ends, as the app's engine does. In the main thread:
        a confined child ends with the thread that started it."""
        from engine.trace import warm as warm_tracing

        warm_tracing(local_user=True)
        self.evaluator.warm()


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
