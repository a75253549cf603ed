"""Rounds without a GPU: a program's meaning runs on the CPU, with operands rounded as the tensor cores round them.

If the full size would take minutes, only the leading rows of the inputs are computed. The pasted module's process gives
the correct results; a program without a module is compared with its own ideal in float64.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from hashlib import sha256
from threading import Lock
from typing import Any

from dsl.ir import Collective, Config
from dsl.printer import to_text
from engine import start
from engine.devices import Candidate, Problem, TrialError
from engine.devices.parts import to_json
from engine.evaluate.correctness.row_slices import rows_for
from engine.evaluate.correctness.tolerance import TOLERANCES, Comparison, PyTorchError
from engine.evaluate.correctness.verification import Round, RoundResult, Rounds
from engine.evaluate.reference.module_process import Reference
from engine.jsonprocess import JsonProcess, WorkerLost
from engine.session import events
from sol.graph import SLICES

FLOPS = 5e9  # of a product checked on a CPU: 0.1 s in float32, 0.3 s in float64 on two cores
FAMILIES = ("own", "large", "closed_form")  # `normal` adds nothing to own inputs and the scaled `large`
PYTORCH = ("own",)  # families on which PyTorch's own error is always measured; on others only if a trial looks wrong
ORACLE_SECONDS = 180.0

_idle: list[Oracle] = []
_lock = Lock()


class Oracle:
    """The process that runs meanings (engine.evaluate.correctness.oracle_main): started ahead, replaced when lost. It
    also hosts the judge of raw kernels. `generation` counts processes. It runs only our own code, so sessions may use
    it one after the other (`borrow`, `give_back`)."""

    def __init__(self) -> None:
        self.generation = 0
        self._session = os.urandom(8)  # part of a graph's key: equal graphs of two sessions have different parameters
        self._process: JsonProcess | None = None
        self._graph = ""  # digest of the graph in the process

    @classmethod
    def borrow(cls) -> Oracle:
        """One that imported torch for an earlier session, else a new one."""
        with _lock:
            return _idle.pop() if _idle else cls()

    def give_back(self) -> None:
        """Keep the process for a later session, if few wait already. Its data is dropped with the first request."""
        self._session, self._graph = os.urandom(8), ""
        with _lock:
            if self.alive and len(_idle) < (os.cpu_count() or 1):
                _idle.append(self)
                return
        self.close()

    @property
    def alive(self) -> bool:
        return self._process is not None and self._process.alive

    def start(self) -> None:
        """Start the process unless one runs. Does not wait for its imports."""
        if not self.alive:
            self.close()
            args = start.command("engine.evaluate.correctness.oracle_main")
            self._process = JsonProcess(args, name="process that checks meanings")
            self.generation += 1

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
        self._process, self._graph = None, ""

    def request(self, message: dict[str, Any], timeout: float) -> dict[str, Any]:
        """The answer to one message of the judge (engine.evaluate.integrity.process.judge.Host). Raises WorkerLost."""
        self.start()
        return self._process.request(message, timeout=timeout)

    def ask(self, request: dict[str, Any], graph: str, cancelled: Callable[[], bool]) -> dict[str, Any]:
        """The answer about a graph (JSON). Raises TrialError("validate"); the next call replaces a lost process."""
        self.start()
        request["key"] = sha256(self._session + graph.encode()).hexdigest()
        if self._graph != request["key"]:
            request["graph"] = graph
        try:
            answer = self._process.request(request, timeout=ORACLE_SECONDS, cancelled=cancelled)
        except WorkerLost as e:
            self.close()
            raise TrialError("validate", f"oracle_{e.why}", str(e), e.log or None) from None
        if "error" in answer:
            raise TrialError("validate", "oracle", f"the program could not be run: {answer['message']}")
        if request["op"] == "judge":
            self._graph = request["key"]
        return answer


@atexit.register
def _drain() -> None:
    with _lock:
        while _idle:
            _idle.pop().close()


class OracleRounds(Rounds):
    """`reference`: the process of the pasted module; None for a program without a module."""

    def __init__(self, problem: Problem, reference: Reference | None, oracle: Oracle, cancelled: Callable[[], bool]):
        self.problem, self.reference, self.oracle, self.cancelled = problem, reference, oracle, cancelled
        families = FAMILIES if reference is not None else ("normal", *FAMILIES[1:])
        self.rounds = [Round(family, problem.seed + 1000 + i) for i, family in enumerate(families)]
        self.rows = rows_for(problem.graph, FLOPS)
        self.slices = any(op.op in SLICES for op in problem.graph.ops)
        self._graph = problem.graph.to_json()
        self._known: dict[str, events.TrialValidated] = {}  # meaning -> its validation
        self._pytorch: dict[tuple, PyTorchError] = {}

    def validate(self, candidate: Candidate, most: int | None = None) -> events.TrialValidated:
        """Candidates that differ only in configuration mean the same, so the second gets the answer of the first."""
        key = f"{most}:{meaning(candidate)}"
        if key in self._known:
            before = self._known[key]
            same = f"same meaning as trial {before.trial}, checked there: {before.scope}"
            return replace(before, trial=candidate.trial, scope=same)
        try:
            validated = super().validate(candidate, most)
        except TrialError as e:
            # Operations beside regions, and slices, keep the traced sizes; on fewer rows they may mean something else.
            whole = self.rows is None or not (candidate.placed or self.slices)
            if whole or e.code not in ("oracle", "wrong_result"):
                raise
            self.rows = None
            self._pytorch.clear()
            validated = super().validate(candidate, most)
        self._known[key] = validated
        return validated

    def begin(self, candidate: Candidate) -> Sequence[Round]:
        return self.rounds

    def run(self, candidate: Candidate, round_: Round) -> RoundResult:
        right = self._right(round_) if self.reference is not None else None
        own = self.reference.inputs_own() if self.reference is not None else None
        answer = self._ask(
            "judge", round_, program=candidate.text, inputs=[asdict(b) for b in candidate.inputs],
            outputs=[asdict(b) for b in candidate.outputs], own=own.to_json() if own else None, reference=right,
            ideal=self.reference is None, cls=candidate.cls, placed=[to_json(p) for p in candidate.placed],
        )  # fmt: skip
        results = [Comparison(**r) for r in answer["results"]]
        above = max(r.error for r in results) > TOLERANCES[candidate.cls].error
        # Compared with its own ideal, a program has its class's rounding error, amplified by the program.
        rounded = [PyTorchError(r.error, r.max_error) for r in results] if self.reference is None and above else []
        return RoundResult(results, rounded=rounded)

    def _right(self, round_: Round) -> dict | None:
        """The place of the reference; None if the oracle's process has it."""
        try:
            if self._ask("kept", round_)["kept"]:
                return None
            return self.reference.compute(round_.family, round_.seed, self.rows).region.to_json()
        except TrialError as e:
            if e.code == "rows_refused" and self.rows is not None:
                self.rows = None  # a module with fixed sizes: compute all rows
                return self._right(round_)
            raise

    def _ask(self, op: str, round_: Round, **more: Any) -> dict[str, Any]:
        request = {"op": op, "family": round_.family, "seed": round_.seed, "rows": self.rows, **more}
        return self.oracle.ask(request, self._graph, self.cancelled)

    def pytorch_error(self, round_: Round, cls: str, suspected: bool) -> PyTorchError | None:
        """Always measured for fp8, whose tolerance is e5m2's: twice what e4m3 needs."""
        if self.reference is None or not (suspected or round_.family in PYTORCH or cls == "fp8"):
            return None
        key = (round_, cls)
        if key not in self._pytorch:
            self._pytorch[key] = self.reference.pytorch_error(round_.family, round_.seed, cls, self.rows)
        return self._pytorch[key]

    def scope(self, checks: list[dict[str, Any]], repeats: bool) -> str:
        graph = self.problem.graph
        lead = graph.tensors[graph.inputs[0]].shape[0] if graph.inputs and graph.tensors[graph.inputs[0]].shape else 0
        rows = f"{self.rows} of {lead:,} rows" if self.rows else "all rows"
        against = "the module in float64" if self.reference is not None else "the program's own ideal in float64"
        families = f"{len(checks)} input families"
        return f"run on the CPU with the tensor cores' rounding: {rows}, {families}, against {against}"


def meaning(candidate: Candidate) -> str:
    """The computation of a program without its configuration: candidates with one meaning give the same numbers
    here."""
    stages = tuple(
        replace(s, config=Config(compute=s.config.compute)) if isinstance(s, Collective) else s
        for s in candidate.program.stages
    )
    beside = [(p.ops, p.text) for p in candidate.placed[1:]]
    return f"{candidate.cls}:{candidate.inputs}:{to_text(replace(candidate.program, stages=stages))}{beside or ''}"
