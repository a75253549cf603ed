"""Trials over many problems: the next one goes where the predicted saving is largest.

A problem that is at its limit, or that has stalled, has little left to give; another may be ten times away from
its own. The saving expected of one more trial is estimated from the problem's own history,

    saving = weight * (t_best - t_next),   t_next = t_best - (t_best - t_sol) * p

where p, the share of the remaining gap that a trial closes, is the mean over the last trials (a first guess counts
as one of them), and the weight is how often the problem runs. A problem without a time yet counts its baseline as
its best. Whoever's budget rule (sol.budget) says stop gets nothing more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sol.budget import Recorded, should_stop

FIRST_GUESS = 0.3  # share of the gap that a first trial closes
LAST = 6  # trials that are looked back on


@dataclass(frozen=True)
class Progress:
    """How far one problem is. `times`: of its trials in order, ms, None for one that failed; `budget`: trials it may
    have; `weight`: how much a millisecond of it counts."""

    name: str
    t_sol_ms: float
    baseline_ms: float
    times: tuple[float | None, ...] = ()
    budget: int = 12
    weight: float = 1.0

    @property
    def best_ms(self) -> float | None:
        return min((t for t in self.times if t is not None), default=None)

    @property
    def since_best(self) -> int:
        best = self.best_ms
        return len(self.times) if best is None else len(self.times) - 1 - self.times.index(best)


@dataclass(frozen=True)
class Turn:
    """Who is next and why. `saving_ms`: what the trial is expected to bring, weighted."""

    name: str
    saving_ms: float
    why: str


def expected_saving(p: Progress) -> float:
    """Milliseconds (times weight) that one more trial is expected to save."""
    now = min(p.baseline_ms, p.best_ms if p.best_ms is not None else p.baseline_ms)
    shares, best = [FIRST_GUESS], p.baseline_ms
    for t in p.times:
        room = best - p.t_sol_ms
        gained = max(0.0, best - t) if t is not None else 0.0
        shares.append(min(1.0, gained / room) if room > 0 else 0.0)
        best = min(best, t) if t is not None else best
    recent = [*shares[-LAST:], FIRST_GUESS] if len(shares) > LAST else shares
    return p.weight * max(0.0, now - p.t_sol_ms) * sum(recent) / len(recent)


def next_turn(problems: Sequence[Progress], eps: float = 0.25, window: int = 12) -> Turn | None:
    """The problem that the next trial should go to; None when every budget or rule is done. Ties go to the first."""
    best: Turn | None = None
    for p in problems:
        if len(p.times) >= p.budget or should_stop(p.best_ms, p.baseline_ms, p.t_sol_ms, p.since_best, eps, window):
            continue
        saving = expected_saving(p)
        if best is None or saving > best.saving_ms:
            now = p.best_ms if p.best_ms is not None else p.baseline_ms
            why = f"{now:.3g} ms now, {now / p.t_sol_ms:.2f} times its limit" if p.t_sol_ms > 0 else f"{now:.3g} ms now"
            best = Turn(p.name, saving, f"{why}; a trial should save {saving:.3g} ms")
    return best


@dataclass(frozen=True)
class Step:
    """After so many trials in all, the sum over problems of the best times (baselines where nothing beat them)."""

    trials: int
    total_ms: float


def simulate(sessions: Sequence[Recorded], trials: int, eps: float = 0.25, window: int = 12) -> list[Step]:
    """Recorded sessions dealt out anew: what `trials` trials in all would have reached under this scheduler, if each
    problem's trials had come in their recorded order. The first step is before any trial."""
    done: dict[str, int] = {s.name: 0 for s in sessions}

    def state() -> list[Progress]:
        return [
            Progress(s.name, s.t_sol_ms, s.baseline_ms, tuple(t.ms for t in s.trials[: done[s.name]]), len(s.trials))
            for s in sessions
        ]

    def total() -> float:
        return sum(min(p.baseline_ms, p.best_ms if p.best_ms is not None else p.baseline_ms) for p in state())

    steps = [Step(0, total())]
    while steps[-1].trials < trials and (turn := next_turn(state(), eps, window)):
        done[turn.name] += 1
        steps.append(Step(steps[-1].trials + 1, total()))
    return steps


def in_turn(sessions: Sequence[Recorded], trials: int) -> list[Step]:
    """The same without a scheduler: every problem one trial, then every problem its second, and so on."""
    queue = [(i, s) for i in range(max((len(s.trials) for s in sessions), default=0)) for s in sessions]
    best = {s.name: s.baseline_ms for s in sessions}
    steps = [Step(0, sum(best.values()))]
    for i, s in queue:
        if i >= len(s.trials) or steps[-1].trials >= trials:
            continue
        if s.trials[i].ms is not None:
            best[s.name] = min(best[s.name], s.trials[i].ms)
        steps.append(Step(steps[-1].trials + 1, sum(best.values())))
    return steps
