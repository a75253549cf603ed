"""Scripts, a device with lanes and a way to play them, for tests of the interface between sessions and strategies.

`Searching` plays engine.session.script.search on a prepared problem: a session without its frame, so that thousands
fit into a test. The device judges kernels by their text: some fail, the others take a time that the text says.
"""

from __future__ import annotations

import copy
import hashlib
import random
import time
from collections.abc import Callable, Iterable, Sequence
from functools import cache

from engine.devices import Problem, TrialError
from engine.evaluate.integrity.kernel_trial import Untimed
from engine.executors import Executor
from engine.session import events
from engine.session.journal import Journal
from engine.session.owner import Owner
from engine.session.script.lanes import Lanes
from engine.session.script.search import Search
from engine.session.script.state_fold import StateFold
from engine.session.script.steps import Emitted
from engine.session.trial import Context
from engine.strategies.api import Candidate, Strategy, Try
from engine.strategies.planner.lowering import program_graph
from engine.strategies.problem import Prepared
from sol.hardware import load
from tests.engine.counting import PROGRAM, CountingDevice, spec

BASELINE = events.Baseline("eager_f16", "f16", events.Prediction(1.0, "t_attainable", "h200"))


def number(text: str, salt: str = "") -> int:
    """A number that a text stands for."""
    return int(hashlib.sha256(f"{salt}{text}".encode()).hexdigest()[:8], 16)


def kernel(text: str) -> Candidate:
    return Candidate(text, "f16", form="kernel", language="cuda")


def tries(*texts: str) -> tuple[Try, ...]:
    return tuple(Try(kernel(t), t) for t in texts)


class KernelDevice(CountingDevice):
    """Runs kernels and programs on several lanes. A kernel with "fail" in it fails, and so does one in eight; `slow`:
    text -> seconds of its measurement; `jitter`: seconds at most of every step."""

    kind = "measured"  # a device that predicts gives no kernel a time
    forms = ("program", "kernel")
    screens = True

    def __init__(self, lanes: int = 1, slow: dict[str, float] | None = None, jitter: float = 0.0, salt: str = ""):
        super().__init__()
        self.lanes, self.slow, self.jitter, self.salt = lanes, slow or {}, jitter, salt
        self.open_now = True
        self.cancelled: Callable[[], bool] = lambda: False
        self.under_way: set[int] = set()
        self.most = 0

    def _ask(self, step, candidate):
        super()._ask(step, candidate)
        self.under_way.add(candidate.trial)
        self.most = max(self.most, len(self.under_way))
        until = time.monotonic() + self.slow.get(candidate.text, 0.0) * (step == "measure")
        until += self.jitter * (number(candidate.text, f"{self.salt}{step}") % 100) / 100
        while time.monotonic() < until and not self.cancelled():
            time.sleep(0.0005)
        self.under_way.discard(candidate.trial)

    def check(self, candidate):
        return events.TrialChecked(candidate.trial, events.blob_name(candidate.text), 0.0)

    def build(self, candidate):
        if candidate.form == "program":
            return super().build(candidate)
        self._ask("compile", candidate)
        return events.TrialCompiled(candidate.trial, candidate.language, "not compiled", 0.0)

    def validate(self, candidate):
        done = super().validate(candidate)
        if candidate.form == "kernel" and ("fail" in candidate.text or number(candidate.text) % 8 == 0):
            raise TrialError("validate", "wrong_result", "on own inputs, the result is wrong", "a long log")
        return done

    def measure(self, candidate, baseline):
        if candidate.form == "program":
            return super().measure(candidate, baseline)
        self._ask("measure", candidate)
        ms = 0.5 + number(candidate.text, "ms") % 1000 / 1000
        time_ = events.Prediction(ms, "t_attainable", "h200")
        return events.TrialMeasured(candidate.trial, time_, baseline.name, baseline.time.ms, baseline.time.ms / ms)

    def quick(self, candidates, baseline):
        return [number(c.text, "quick") % 1000 / 1000 for c in candidates]


class NoGpu(KernelDevice):
    """Compiles kernels and can run none."""

    def validate(self, candidate):
        if candidate.form == "kernel":
            raise Untimed("validate", "needs_gpu", "compiled, and not run: there is no GPU here")
        return super().validate(candidate)


@cache
def typed_problem() -> Problem:
    from dsl.check.program import check

    return Problem(PROGRAM, "program", program_graph.graph_of(check(PROGRAM).program))


@cache
def _prepared() -> Prepared:
    return Prepared(typed_problem(), ("f16",), load("h200"), screens=True)


def problem(seed: int = 0) -> Prepared:
    """The problem of one session. Preparing it takes long, so sessions share its parts."""
    prepared = copy.copy(_prepared())
    prepared.rng = random.Random(seed)
    return prepared


class Searching:
    """One engine's life: `past` events, the strategy, a device, and the owner's words."""

    def __init__(
        self, strategy: Strategy, device: KernelDevice | None = None, past: Sequence[events.Event] = (),
        blobs: dict[str, str] | None = None, control: Callable[[], list] = list, handlers: dict | None = None,
        trials: int = 100, seed: int = 0, executor: Executor | None = None, eps: float = 0.0, window: int = 1000,
    ):  # fmt: skip
        self.device = device or KernelDevice()
        self.blobs = dict(blobs or {})
        self.journal = Journal(past, self.blobs.__getitem__, lambda: 0.0)
        asked = spec(trials=trials, eps=eps, window=window)
        self.owner = Owner(asked, self.journal, control)
        self.device.cancelled = self.owner.stop.is_set
        self.lanes = Lanes(self.owner, executor)
        self.lanes.widen(self.device.lanes)
        self.problem = problem(seed)
        self.problem.cancelled = self.owner.cancelled
        limits, baselines = {"f16": 0.01}, {"f16": BASELINE}
        self.problem.__dict__["limits"] = limits
        context = Context(self.device, self.problem, self.problem.hardware, limits, baselines, self.journal)
        self.fold = StateFold(self.journal, self.problem, baselines, asked.budget)
        self.search = Search(
            self.journal, self.owner, self.lanes, strategy, context, self.fold, handlers or {}
        )  # fmt: skip
        self.code = self.reason = ""

    def events(self) -> Iterable[Emitted]:
        """What is logged now; `code` and `reason` are the search's end afterwards."""
        try:
            ending = yield from self.search.run()
            self.code, self.reason = ending.code, ending.reason
        finally:
            self.lanes.close()

    def run(self) -> list[events.Event]:
        """The whole log when the search is over."""
        for emitted in self.events():
            self.blobs |= emitted.blobs
        return self.journal.log


class Scripted(Strategy):
    """A strategy whose script is a function of the problem; `seen`: every answer, in order."""

    name = "scripted"
    forms = ("program", "kernel")
    programs = False

    def __init__(self, script: Callable, receives: bool = False):
        super().__init__()
        self.script, self.receives = script, receives

    def run(self, problem):
        return (yield from self.script(problem))


def of(log: Iterable[events.Event], kind: type) -> list:
    return [e for e in log if isinstance(e, kind)]


def play(script, device=None, **more):
    searching = Searching(Scripted(script, more.pop("receives", False)), device, **more)
    return searching.run(), searching


def resumed(script, searching, cut, device=None, **more):
    """The log of an engine that takes the session up after `cut` events."""
    log = searching.journal.log[:cut]
    return play(script, device, past=log, blobs=searching.blobs, **more)


def iter_of(*verbs):
    for verb in verbs:  # noqa: UP028 - a tuple takes no answers
        yield verb
    return ""
