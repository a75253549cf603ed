"""What the sessions on one problem share on a modelled device: the module's graph and the checks of equal programs.

On a modelled device a check is deterministic: the meaning of a program runs on the CPU, on inputs of a seed, and its
time is a formula. So a program that one session verified is not verified again by another one: the answer is stored
under the digest of the module's text and the program's meaning (the program without its configuration, as within one
session). All sessions of a comparison are checked on the inputs of one seed, whatever their own is. A stored answer
says so in its `scope`. Wrong results are stored alike. Nothing is shared on a GPU, where every session measures itself.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import asdict, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from threading import Lock, RLock
from typing import Any

from engine.devices import Problem, SessionRefused, TrialError
from engine.devices.modelled import Modelled, OfflineBuilds
from engine.evaluate.correctness.oracle_rounds import meaning
from engine.evaluate.correctness.verification import Rounds
from engine.evaluate.evaluator import Evaluator, first_baseline
from engine.evaluate.machine import Programs, Workbench
from engine.evaluate.timing.predicted_timing import PredictedTiming
from engine.session import events

SEED = 0  # of the inputs of every check
OPEN = 2  # problems whose processes stay warm


class Shared:
    """Of one process. `store`: a file of verified programs, which other processes of the same comparison read and
    extend; None keeps them in memory. From several threads."""

    def __init__(self, hardware: str = "h200", store: Path | None = None):
        self.hardware, self.store = hardware, store
        self._answers: dict[str, dict[str, Any]] = {}
        self._read = 0  # bytes of the store
        self._traces: dict[str, Any] = {}
        self._open: OrderedDict[str, Workbench] = OrderedDict()
        self._machines: dict[str, Modelled] = {}
        self._refused: dict[str, SessionRefused] = {}
        self._lock, self._checking = Lock(), RLock()
        self.checks = 0  # programs that this process verified itself

    def device(self) -> Evaluator:
        """The device of one session."""
        return Evaluator(_Machine(self))

    def trace(self, source: str, **how: Any) -> Any:
        """In place of engine.trace.trace: each text is traced once."""
        import engine.trace

        with self._checking:
            if source not in self._traces:
                self._traces[source] = engine.trace.trace(source, **{**how, "cancelled": None})
            return self._traces[source]

    def validated(self, problem: Problem, candidate: Any) -> events.TrialValidated:
        """The check of a program. Raises TrialError("validate")."""
        key = sha256("\0".join([problem.source, meaning(candidate)]).encode()).hexdigest()
        with self._checking:
            if key not in self._answers:
                self._look()
            known = key in self._answers
            if not known:
                self._put(key, self._verify(problem, candidate))
            answer = self._answers[key]
        if "error" in answer:
            e = answer["error"]
            raise TrialError("validate", e["code"], e["reason"])
        event = events.TrialValidated(**answer["validated"])
        once = "verified once for all sessions of this comparison: " if known else ""
        return replace(event, trial=candidate.trial, scope=once + event.scope)

    def admit(self, problem: Problem) -> None:
        """Open a problem, unless this or another process of the comparison did. Raises SessionRefused for one that no
        session can open here."""
        opened = sha256(f"opened\0{problem.source}".encode()).hexdigest()
        with self._checking:
            if opened not in self._answers:
                self._look()
            if opened not in self._answers and problem.source not in self._refused:
                try:
                    self._bench(problem)
                    self._put(opened, {})
                except SessionRefused as e:
                    self._refused[problem.source] = e
            if problem.source in self._refused:
                raise self._refused[problem.source]

    def close(self) -> None:
        with self._checking:
            while self._open:
                self._drop(next(iter(self._open)))

    # ---- inside ----

    def _verify(self, problem: Problem, candidate: Any) -> dict[str, Any]:
        self.checks += 1
        try:
            return {"validated": asdict(self._bench(problem).programs.rounds.validate(candidate))}
        except TrialError as e:
            if e.code != "wrong_result":
                self._drop(problem.source)
                raise
            return {"error": {"code": e.code, "reason": e.reason}}

    def _bench(self, problem: Problem) -> Workbench:
        if problem.source in self._open:
            self._open.move_to_end(problem.source)
            return self._open[problem.source]
        while len(self._open) >= OPEN:
            self._drop(next(iter(self._open)))
        machine = Modelled(self.hardware, local_user=True)
        try:
            self._open[problem.source] = machine.open(replace(problem, seed=SEED), lambda: False)
        except SessionRefused:
            machine.close()
            raise
        self._machines[problem.source] = machine
        return self._open[problem.source]

    def _drop(self, source: str) -> None:
        if source in self._open:
            self._open.pop(source).close()
            self._machines.pop(source).close()

    def _put(self, key: str, answer: dict[str, Any]) -> None:
        self._answers[key] = answer
        if self.store is not None:
            with self.store.open("a", encoding="utf-8") as file:
                file.write(json.dumps([key, answer]) + "\n")

    def _look(self) -> None:
        """Read what other processes stored since the last look."""
        if self.store is None or not self.store.exists() or self.store.stat().st_size == self._read:
            return
        with self.store.open("rb") as file:
            file.seek(self._read)
            for line in file:
                if not line.endswith(b"\n"):
                    break
                self._read += len(line)
                key, answer = json.loads(line)
                self._answers.setdefault(key, answer)


class _Machine(Modelled):
    """A modelled device that opens no processes of its own, except for raw kernels."""

    def __init__(self, shared: Shared):
        super().__init__(shared.hardware, local_user=True)
        self.shared = shared
        self.would: dict[int, float] = {}  # trial with a wrong result -> the time that its program is predicted to take

    def warm(self, source_kind: str = "module") -> None:
        """Nothing: most sessions verify nothing themselves."""

    def open(self, problem: Problem, cancelled: Callable[[], bool], loaded: None = None) -> Workbench:
        self.shared.admit(problem)
        rounds, kernels = _Rounds(self, problem), _Kernels(lambda: Modelled.open(self, problem, cancelled))
        timing = PredictedTiming(problem, self.hw)
        return Workbench(
            Programs(OfflineBuilds(cancelled), rounds, timing), kernels.close, others={"kernel": kernels}
        )  # fmt: skip


class _Rounds(Rounds):
    def __init__(self, machine: _Machine, problem: Problem):
        self.machine, self.problem = machine, problem

    def validate(self, candidate: Any, most: int | None = None) -> events.TrialValidated:
        try:
            return self.machine.shared.validated(self.problem, candidate)
        except TrialError as e:
            if e.code == "wrong_result":
                timing = PredictedTiming(self.problem, self.machine.hw)
                baseline = timing.baseline(first_baseline(self.problem.graph, [candidate.cls]))
                self.machine.would[candidate.trial] = timing.measure(candidate, baseline).time.ms
            raise


class _Kernels:
    """The form `kernel`: the processes of a workbench of this session alone, started with its first kernel."""

    def __init__(self, start: Callable[[], Workbench]):
        self._start = start

    @cached_property
    def workbench(self) -> Workbench:
        return self._start()

    def __getattr__(self, name: str) -> Any:  # check, build, validate and measure
        return getattr(self.workbench.others["kernel"], name)

    def close(self) -> None:
        if "workbench" in vars(self):
            self.workbench.close()
