"""Is a built program right? Each round's inputs at full size, against what the pasted module computes on the same ones.

The rounds are the session's own: secret, so that no program can be made for the data; the same for all trials, so that
what is right is computed once.
"""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass

from dsl.ir import Collective
from engine.devices import Candidate, TrialError
from engine.evaluate.candidate.gpu_session import Placing
from engine.evaluate.correctness.inputs import GUARD_FAMILIES
from engine.evaluate.correctness.tolerance import ITS_OWN, TOLERANCES, Comparison, PyTorchError, bound, verdict
from engine.session import events
from sol.graph import OpGraph

ROUNDS = ("own", "normal", "normal", "large", "tiny", "closed_form")
CHECK_SECONDS = 60.0
# PyTorch's kernels whose sums depend on the order in which blocks finish (torch.use_deterministic_algorithms).
UNSTEADY = {"index_add", "scatter_add", "scatter_reduce", "bincount", "histc", "cumsum", "cumprod", "index_copy"}


@dataclass(frozen=True)
class Round:
    """One set of inputs that every program of the session is checked on."""

    family: str
    seed: int


class Verifying:
    """`computed`: how often the module was asked what is right or how wrong PyTorch is, for which its process sets its
    own precision: a baseline that was open there is open no longer. `pytorch`: (round, class) -> PyTorch's error."""

    def __init__(self, placing: Placing):
        self.placing, self.reference = placing, placing.reference
        secret = int.from_bytes(os.urandom(6)) ^ placing.problem.seed
        families = ROUNDS if self.reference is not None else ROUNDS[1:]
        self.rounds = [Round(family, secret + 17 * i) for i, family in enumerate(families)]
        self.guarded = [Round(family, secret + 503 + 17 * i) for i, family in enumerate(GUARD_FAMILIES)]
        self.timing_seed = secret + 1009
        self.computed = 0
        self.pytorch: dict[tuple[Round, str], PyTorchError] = {}
        self._kept: dict[tuple[Round, int], bool] = {}  # by the worker's generation
        self._precision = ""

    def prepare(self, round_: Round, classes: list[str]) -> dict | None:
        """Let the module say what is right on these inputs, and PyTorch how wrong it is itself. The worker keeps the
        answer; where it has no room the answer's place in shared memory is returned, valid until the next."""
        if self.reference is None:
            return None
        region, at = None, (round_, self.placing.generation)
        if not self._kept.get(at, False):
            self.computed += 1
            made = self.reference.compute(round_.family, round_.seed)
            self._precision = made.precision
            region = made.region.to_json()
            kept = self.placing.ask(
                "validate", "keep", CHECK_SECONDS, family=round_.family, seed=round_.seed, reference=region
            )
            self._kept[at] = kept["kept"]
        for cls in classes:
            if (round_, cls) not in self.pytorch:
                self.computed += 1
                self.pytorch[round_, cls] = self.reference.pytorch_error(round_.family, round_.seed, cls)
        return None if self._kept[at] else region

    def validate(self, candidate: Candidate) -> events.TrialValidated:
        """The built program at full size on every round's inputs; a guarded one also on those that trip it."""
        self.placing.load("validate", candidate)
        rounds = [*self.rounds, *(self.guarded if candidate.program.guard else ())]
        checks, worst, repeats, applied = [], Comparison(0.0, 0.0), True, bound(candidate.cls)
        for round_ in rounds:
            place = self.prepare(round_, [candidate.cls])
            pytorch = self.pytorch.get((round_, candidate.cls))
            if round_.family in GUARD_FAMILIES and pytorch is not None and pytorch.unexpected:
                continue  # float32 itself overflows there
            answer = self.placing.ask(
                "validate", "check", CHECK_SECONDS, family=round_.family, seed=round_.seed, reference=place,
                ideal=self.reference is None, repeatable=repeatable(candidate, self.placing.problem.graph),
                tolerance=TOLERANCES[candidate.cls].error,
            )  # fmt: skip
            repeats &= answer["repeats"]
            found = [Comparison(**r) for r in answer["results"]]
            # A program by itself may amplify rounding; how much, its own meaning says where the table is too strict.
            rounded = [PyTorchError(**r) for r in answer.get("rounded", ())]
            for i, one in enumerate(found):
                wrong = verdict(candidate.cls, one, rounded[i] if rounded else pytorch)
                if wrong:
                    raise TrialError("validate", "wrong_result", f"on {round_.family} inputs, {wrong}")
            top = max(found, key=lambda c: c.error)
            if top.error > worst.error:
                applied = bound(candidate.cls, rounded[found.index(top)] if rounded else pytorch)
                applied = (applied[0], ITS_OWN) if rounded and applied[1] else applied
            largest = max(c.max_error for c in found)
            checks.append(
                {**asdict(round_), "error": top.error, "max_error": largest, "pytorch_error": pytorch and pytorch.error}
            )
            worst = Comparison(max(worst.error, top.error), max(worst.max_error, largest))
        return events.TrialValidated(
            candidate.trial, worst.error, worst.max_error, applied[0], checks, self._scope(repeats, checks), applied[1]
        )

    def _scope(self, repeats: bool, checks: list[dict]) -> str:
        against = {"f32": "float32 without TF32", "as written": "its own types"}.get(self._precision, "float64")
        against = f"the module in {against}" if self.reference is not None else "the program's own ideal in float64"
        families = len({c["family"] for c in checks})
        runs = "two runs equal" if repeats else "two runs differ, as stream-K's sums may"
        return (
            f"full size on the GPU, {len(checks)} rounds, {families} input families, against {against}, "
            f"outputs poisoned and guarded, inputs unchanged, {runs}"
        )


def repeatable(candidate: Candidate, graph: OpGraph | None = None) -> bool:
    """Whether the same inputs must give the same bits: not where stream-K's blocks add in the order they finish, nor
    where PyTorch's own kernels beside regions do."""
    programs = [p.program for p in candidate.placed] or [candidate.program]
    products = [s for program in programs for s in program.stages if isinstance(s, Collective)]
    if any(s.config.scheduler and s.config.scheduler.kind == "stream_k" for s in products):
        return False
    inside = {name for p in candidate.placed for name in p.ops}
    rest = [op for op in graph.ops if op.name not in inside] if graph and candidate.placed else []
    return not any(op.op in UNSTEADY for op in rest)
