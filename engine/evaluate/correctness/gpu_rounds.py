"""Rounds on the GPU: the built program at full size, compared with the pasted module on the same inputs.

The seeds are secret and belong to the session, so that no program can be fitted to the data. All trials use the same
seeds, so that the correct results are computed once.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Sequence
from typing import Any

from dsl.ir import Collective
from engine.devices import NO_ROOM, Candidate, TrialError
from engine.evaluate.candidate.gpu_session import MAIN, GpuSession
from engine.evaluate.correctness.inputs import GUARD_FAMILIES
from engine.evaluate.correctness.tolerance import TOLERANCES, Comparison, PyTorchError
from engine.evaluate.correctness.verification import Round, RoundResult, Rounds
from sol.graph import OpGraph

FAMILIES = ("own", "normal", "normal", "large", "tiny", "closed_form")
CHECK_SECONDS = 60.0
NO_ROOM_SECONDS = 60.0  # in which a reference without memory is not computed again, unless others give some back
# PyTorch's kernels whose sums depend on the order in which blocks end (torch.use_deterministic_algorithms).
UNSTEADY = {"index_add", "scatter_add", "scatter_reduce", "bincount", "histc", "cumsum", "cumprod", "index_copy"}


class GpuRounds(Rounds):
    """`computed`: how often the module's process computed a reference or PyTorch's error; each time changes its
    precision and closes a baseline that was open there. `pytorch`: (round, class) -> PyTorch's error."""

    def __init__(self, session: GpuSession):
        self.session, self.reference = session, session.reference
        secret = int.from_bytes(os.urandom(6)) ^ session.problem.seed
        families = FAMILIES if self.reference is not None else FAMILIES[1:]
        self.rounds = [Round(family, secret + 17 * i) for i, family in enumerate(families)]
        self.guarded = [Round(family, secret + 503 + 17 * i) for i, family in enumerate(GUARD_FAMILIES)]
        self.timing_seed = secret + 1009
        self.computed = 0
        self.pytorch: dict[tuple[Round, str], PyTorchError] = {}
        self._in_worker: dict[tuple[Round, int], bool] = {}  # by the worker's generation
        self._precision = ""
        self._no_room: tuple[float, TrialError] | None = None  # when the reference found too little memory last

    def more_room(self) -> None:
        self._no_room = None

    def lose_baseline(self) -> None:
        """Record that the module's process was used for something else, which closes a baseline that was open there."""
        self.computed += 1

    def prepare(self, classes: list[str]) -> None:
        with contextlib.suppress(TrialError):
            for round_ in self.rounds:
                self._reference(round_, classes)

    def _reference(self, round_: Round, classes: list[str]) -> dict | None:
        """Let the module's process compute the correct results of this round, and PyTorch's own error. The worker keeps
        the results. If it has no room, return their place in shared memory, valid until the next call. Where there is
        too little memory to compute them, the next candidates of a minute are told so at once."""
        if self.reference is None:
            return None
        if self._no_room is not None and time.monotonic() < self._no_room[0] + NO_ROOM_SECONDS:
            e = self._no_room[1]
            raise TrialError(e.step, e.code, e.reason, e.detail)
        try:
            return self._computed(round_, classes)
        except TrialError as e:
            self._no_room = (time.monotonic(), e) if e.code in NO_ROOM else None
            raise

    def _computed(self, round_: Round, classes: list[str]) -> dict | None:
        region, at = None, (round_, self.session.generation)
        if not self._in_worker.get(at, False):
            self.computed += 1
            self.session.share_results()
            outputs = self.reference.compute(round_.family, round_.seed)
            self._precision = outputs.precision
            region = outputs.region.to_json()
            reply = self.session.ask(
                "validate", "keep", CHECK_SECONDS, family=round_.family, seed=round_.seed, reference=region
            )
            self._in_worker[at] = reply["kept"]
        for cls in classes:
            if (round_, cls) not in self.pytorch:
                self.computed += 1
                self.pytorch[round_, cls] = self.reference.pytorch_error(round_.family, round_.seed, cls)
        return None if self._in_worker[at] else region

    def begin(self, candidate: Candidate) -> Sequence[Round]:
        """A guarded program also runs on inputs that trip its guard."""
        self.session.load("validate", candidate)
        return [*self.rounds, *(self.guarded if candidate.program.guard else ())]

    def run(self, candidate: Candidate, round_: Round) -> RoundResult | None:
        place = self._reference(round_, [candidate.cls])
        pytorch = self.pytorch.get((round_, candidate.cls))
        if round_.family in GUARD_FAMILIES and pytorch is not None and pytorch.unexpected:
            return None
        answer = self.session.ask(
            "validate", "check", CHECK_SECONDS, slot=MAIN, family=round_.family, seed=round_.seed, reference=place,
            ideal=self.reference is None, repeatable=repeatable(candidate, self.session.problem.graph),
            tolerance=TOLERANCES[candidate.cls].error,
        )  # fmt: skip
        return RoundResult(
            [Comparison(**r) for r in answer["results"]], answer["repeats"],
            [PyTorchError(**r) for r in answer.get("rounded", ())], answer.get("tripped"),
        )  # fmt: skip

    def pytorch_error(self, round_: Round, cls: str, suspected: bool) -> PyTorchError | None:
        if suspected and self.reference is not None and (round_, cls) not in self.pytorch:
            self._reference(round_, [cls])
        return self.pytorch.get((round_, cls))

    def scope(self, checks: list[dict[str, Any]], repeats: bool) -> str:
        against = {"f32": "float32 without TF32", "as written": "its own types"}.get(self._precision, "float64")
        against = f"the module in {against}" if self.reference is not None else "the program's own ideal in float64"
        families = len({c["family"] for c in checks})
        runs = "two runs equal" if repeats else "two runs differ, as stream-K's sums may"
        return (
            f"full size on the GPU, {len(checks)} rounds, {families} input families, against {against}, "
            f"outputs poisoned and guarded, inputs unchanged, {runs}"
        )


def repeatable(candidate: Candidate, graph: OpGraph | None = None) -> bool:
    """Return True if the same inputs must give the same bits. False for stream-K, whose blocks add in the order in
    which they end, and for such kernels of PyTorch beside regions."""
    programs = [p.program for p in candidate.placed] or [candidate.program]
    products = [s for program in programs for s in program.stages if isinstance(s, Collective)]
    if any(s.config.scheduler and s.config.scheduler.kind == "stream_k" for s in products):
        return False
    inside = {name for p in candidate.placed for name in p.ops}
    rest = [op for op in graph.ops if op.name not in inside] if graph and candidate.placed else []
    return not any(op.op in UNSTEADY for op in rest)
