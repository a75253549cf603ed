"""Is a candidate's result right? The one list of checks, for programs on the GPU and for their meaning on a CPU.

A program runs on several rounds of inputs. Each result is held against what is right there, by the tolerance of its
class and by PyTorch's own error (engine.evaluate.correctness.tolerance). How a round runs, and who says what is right,
is up to the subclass: engine.evaluate.correctness.gpu_rounds or oracle_rounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from engine.devices import Candidate, TrialError
from engine.evaluate.correctness.tolerance import ITS_OWN, Comparison, PyTorchError, bound, verdict
from engine.session import events


@dataclass(frozen=True)
class Round:
    """One set of inputs: a family of engine.evaluate.correctness.inputs and a seed."""

    family: str
    seed: int


@dataclass(frozen=True)
class RoundResult:
    """How a candidate did in one round. `results`: one comparison a result of the program; `repeats`: whether a second
    run gave the same bits; `rounded`: of a program by itself that is above its class's tolerance, what the class's
    rounding alone makes of each result; `tripped`: whether its guard was up, None where it has none."""

    results: Sequence[Comparison]
    repeats: bool = True
    rounded: Sequence[PyTorchError] = ()
    tripped: bool | None = None


@dataclass
class _Worst:
    """The largest errors of all rounds, and the bound that held for the largest."""

    cls: str
    error: float = 0.0
    max_error: float = 0.0
    bound: tuple[float, str] = (0.0, "")
    checks: list[dict[str, Any]] = field(default_factory=list)
    repeats: bool = True

    def __post_init__(self) -> None:
        self.bound = bound(self.cls)

    def add(self, round_: Round, seen: RoundResult, pytorch: PyTorchError | None) -> None:
        at = max(range(len(seen.results)), key=lambda i: seen.results[i].error)
        error, max_error = seen.results[at].error, max(c.max_error for c in seen.results)
        if error > self.error:
            own = seen.rounded[at] if seen.rounded else pytorch
            limit, words = bound(self.cls, own)
            self.bound = (limit, ITS_OWN) if seen.rounded and words else (limit, words)
        self.error, self.max_error = max(self.error, error), max(self.max_error, max_error)
        self.repeats &= seen.repeats
        row = {"family": round_.family, "seed": round_.seed, "error": error, "max_error": max_error,
               "pytorch_error": pytorch and pytorch.error}  # fmt: skip
        self.checks.append(row | ({} if seen.tripped is None else {"tripped": seen.tripped}))


class Rounds:
    """The rounds of one problem. Subclasses say what the rounds are and run a candidate in one."""

    def prepare(self, classes: list[str]) -> None:
        """Compute ahead what the first candidate would wait for; what goes wrong, its validation reports."""

    def begin(self, candidate: Candidate) -> Sequence[Round]:
        """Get the candidate ready to run; its rounds. Raises TrialError("validate")."""
        raise NotImplementedError

    def run(self, candidate: Candidate, round_: Round) -> RoundResult | None:
        """Run it in one round. None where float32 itself overflows, so that nothing can be compared. Raises
        TrialError("validate")."""
        raise NotImplementedError

    def pytorch_error(self, round_: Round, cls: str, suspected: bool) -> PyTorchError | None:
        """PyTorch's own error in the round. `suspected`: a result looks wrong without it. None where there is no
        module, or where it need not be known."""
        raise NotImplementedError

    def scope(self, checks: list[dict[str, Any]], repeats: bool) -> str:
        """What was run where, in words."""
        raise NotImplementedError

    def validate(self, candidate: Candidate, most: int | None = None) -> events.TrialValidated:
        """Every round of a built candidate, or the first `most` of them. Raises TrialError("validate") for the first
        wrong result, with numbers."""
        worst = _Worst(candidate.cls)
        for round_ in list(self.begin(candidate))[:most]:
            seen = self.run(candidate, round_)
            if seen is None:
                continue
            pytorch = self.pytorch_error(round_, candidate.cls, suspected=False)
            wrong = _wrong(candidate.cls, seen, pytorch)
            if wrong and pytorch is None:  # perhaps the module amplifies rounding, or leaves the class's range
                pytorch = self.pytorch_error(round_, candidate.cls, suspected=True)
                wrong = _wrong(candidate.cls, seen, pytorch)
            if wrong:
                raise TrialError("validate", "wrong_result", f"on {round_.family} inputs, {wrong}")
            worst.add(round_, seen, pytorch)
        scope = self.scope(worst.checks, worst.repeats)
        limit, words = worst.bound
        return events.TrialValidated(candidate.trial, worst.error, worst.max_error, limit, worst.checks, scope, words)


def _wrong(cls: str, seen: RoundResult, pytorch: PyTorchError | None) -> str | None:
    """Why one of the results is wrong, in words; None where all are right."""
    for i, result in enumerate(seen.results):
        if words := verdict(cls, result, seen.rounded[i] if seen.rounded else pytorch):
            return words
    return None
