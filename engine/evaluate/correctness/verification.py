"""Verify a candidate's results: one list of checks, for programs on the GPU and for their meaning on a CPU.

A program runs on several rounds of inputs. Each result is compared with the correct one, by the tolerance of its class
and by PyTorch's own error (engine.evaluate.correctness.tolerance). The subclass defines how a round runs and where the
correct result comes from: engine.evaluate.correctness.gpu_rounds or oracle_rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any

from engine.classes import HALVES, class_of
from engine.devices import Candidate, TrialError
from engine.evaluate.correctness.tolerance import ITS_OWN, Comparison, PyTorchError, bound, says_nothing, verdict
from engine.session import events
from engine.words import count


@dataclass(frozen=True)
class Round:
    """One set of inputs: a family of engine.evaluate.correctness.inputs and a seed."""

    family: str
    seed: int


@dataclass(frozen=True)
class RoundResult:
    """The outcome of one round. `results`: one comparison per result of the program; `repeats`: whether a second run
    gave the same bits; `rounded`: for a program without a module that exceeds its class's tolerance, the errors of the
    class's rounding alone; `tripped`: whether its guard tripped, None if it has none."""

    results: Sequence[Comparison]
    repeats: bool = True
    rounded: Sequence[PyTorchError] = ()
    tripped: bool | None = None


@dataclass
class _Worst:
    """The largest errors of all rounds, and the bound for the largest."""

    cls: str
    error: float = 0.0
    max_error: float = 0.0
    bound: tuple[float, str] = (0.0, "")
    checks: list[dict[str, Any]] = field(default_factory=list)
    repeats: bool = True

    def __post_init__(self) -> None:
        self.bound = bound(self.cls)

    def add(self, round_: Round, result: RoundResult, pytorch: PyTorchError | None, cls: str) -> None:
        """`cls`: the class that the result was held to."""
        at = max(range(len(result.results)), key=lambda i: result.results[i].error)
        error, max_error = result.results[at].error, max(c.max_error for c in result.results)
        if error > self.error:
            own = result.rounded[at] if result.rounded else pytorch
            limit, words = bound(cls, own)
            self.bound = (limit, ITS_OWN) if result.rounded and words else (limit, words)
        self.error, self.max_error = max(self.error, error), max(self.max_error, max_error)
        self.repeats &= result.repeats
        row = {"family": round_.family, "seed": round_.seed, "error": error, "max_error": max_error,
               "pytorch_error": pytorch and pytorch.error}  # fmt: skip
        self.checks.append(row | ({} if result.tripped is None else {"tripped": result.tripped}))


class Rounds:
    """The rounds of one problem. Subclasses define the rounds and run a candidate in one."""

    def prepare(self, classes: list[str]) -> None:
        """Compute ahead what the first candidate would wait for. Its validation reports any failure here."""

    def more_room(self) -> None:
        """Other sessions gave back memory: try again what had too little."""

    def begin(self, candidate: Candidate) -> Sequence[Round]:
        """Prepare the candidate and return its rounds. Raises TrialError("validate")."""
        raise NotImplementedError

    def run(self, candidate: Candidate, round_: Round) -> RoundResult | None:
        """Run it in one round. None if float32 itself overflows, so that there is nothing to compare. Raises
        TrialError("validate")."""
        raise NotImplementedError

    def pytorch_error(self, round_: Round, cls: str, suspected: bool) -> PyTorchError | None:
        """PyTorch's own error in the round. `suspected`: a result looks wrong without it. None if there is no module,
        or if the error is not needed."""
        raise NotImplementedError

    def scope(self, checks: list[dict[str, Any]], repeats: bool) -> str:
        """What ran where, in words."""
        raise NotImplementedError

    def validate(self, candidate: Candidate, most: int | None = None) -> events.TrialValidated:
        """Every round of a built candidate, or the first `most` of them. Raises TrialError("validate") for the first
        wrong result, with numbers."""
        worst, noise = _Worst(candidate.cls), []
        for round_ in list(self.begin(candidate))[:most]:
            result = self.run(candidate, round_)
            if result is None:
                continue
            cls = candidate.cls
            pytorch = self.pytorch_error(round_, cls, suspected=False)
            wrong = _wrong(cls, result, pytorch)
            if wrong and pytorch is None:  # perhaps the module amplifies rounding, or exceeds the class's range
                pytorch = self.pytorch_error(round_, cls, suspected=True)
                wrong = _wrong(cls, result, pytorch)
            if wrong and finer(candidate):  # as exact as PyTorch in tf32, which cuts bits off where f16 rounds
                own = self.pytorch_error(round_, "tf32", suspected=True)
                if own is not None and not _wrong("tf32", result, own):
                    cls, pytorch, wrong = "tf32", own, None
            if wrong:
                raise TrialError("validate", "wrong_result", f"on {round_.family} inputs, {wrong}")
            if says_nothing(pytorch):
                noise.append(inf if pytorch.unexpected else pytorch.error)
            else:
                worst.add(round_, result, pytorch, cls)
        own = "leaves its range" if inf in noise else f"is off by up to {max(noise, default=0):.2g}"
        about = f"PyTorch itself, in class {candidate.cls}, {own}" if noise else ""
        if noise and not worst.checks:
            reason = f"{about} on all inputs, so that no result can be told from a wrong one; choose a finer class"
            raise TrialError("validate", "nothing_to_compare", reason)
        scope = self.scope(worst.checks, worst.repeats)
        scope += f"; {count(len(noise), 'round')} left out, where {about}" if noise else ""
        limit, words = worst.bound
        return events.TrialValidated(candidate.trial, worst.error, worst.max_error, limit, worst.checks, scope, words)


def finer(candidate: Candidate) -> bool:
    """Return True if a candidate in a class of half precision has products in tf32. Who allows f16 allows what PyTorch
    gives in tf32: its times count as rivals there, too."""
    if candidate.cls not in HALVES:
        return False
    programs = [p.program for p in candidate.placed] or [candidate.program]
    return any(class_of(program) == "tf32" for program in programs)


def _wrong(cls: str, outcome: RoundResult, pytorch: PyTorchError | None) -> str | None:
    """Why one of the results is wrong, in words; None if all are right."""
    for i, result in enumerate(outcome.results):
        if words := verdict(cls, result, outcome.rounded[i] if outcome.rounded else pytorch):
            return words
    return None
