"""The session's own last trials: what the search found best, in ways that no strategy has to think of.

A module whose best composition leaves much to PyTorch is tried once more with that compiled by Inductor. Fused, these
operations may be faster, and they may not: the trial is verified, timed and judged as every other one is.
"""

from __future__ import annotations

from engine.session import events, trial
from engine.session.script.state_fold import StateFold
from engine.strategies.api import Candidate, Finished
from engine.words import count
from sol.cost.runs import runs

BY = "engine"
LEAST_SHARE = 0.03  # of the module's time that PyTorch's operations must take: no interval of a ratio shows less
# Operations that Inductor is given at most. It compiles in one thread, at some 0.3 s a kernel, and a loop over time
# that was written out has a thousand of them.
MOST_OPERATIONS = 128


def of(best: Finished | None, path: str, context: trial.Context, fold: StateFold) -> trial.Proposal | None:
    """The trial to make of the best one of a class; None if there is nothing to gain."""
    if best is None or best.form != "program" or not best.region or not context.device.compiles_rest:
        return None
    measured = context.journal.past(events.TrialMeasured, best.number)
    if measured is None or measured.part.get("rest"):
        return None
    covered = measured.part.get("covered_ms", 0.0)
    left = measured.time.ms - covered
    if left < LEAST_SHARE * measured.time.ms or covered > measured.baseline_ms:
        return None
    placed = (best, *(fold.finished(number) for number in best.beside))
    fused = runs(context.problem.graph, [context.problem.ops(t.region) for t in placed])
    operations = sum(map(len, fused))
    if not 0 < operations <= MOST_OPERATIONS:
        return None
    return trial.Proposal(
        Candidate(best.text, best.cls, best.backend, rest="inductor"),
        "what stays PyTorch compiled by Inductor",
        f"{count(operations, 'operation')} in {count(len(fused), 'run')} take {left:.3g} of {measured.time.ms:.3g} ms",
        best.number, by=BY, path=path,
    )  # fmt: skip


def beside(proposed: events.TrialProposed, fold: StateFold) -> tuple[Finished, ...]:
    """The programs of the other regions in such a trial: those that ran beside the trial that it is made from."""
    parent = fold.finished(proposed.parent)
    return trial.standing(fold.finished(number) for number in parent.beside)


__all__ = ["BY", "beside", "of"]
