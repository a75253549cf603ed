"""A scheduler over many problems: the next trial goes to the problem with the largest expected saving.

A problem at its limit, or one that has had many trials, can gain little; another may be ten times above its limit. The
expected saving of one more trial after n trials is

    saving = weight * (t_best - t_sol) * SHARE / (n + 1)

The weight is how often the problem runs. Of n + 1 trials in random order, the last is the best with chance 1 / (n + 1),
as records in a sequence (Glick, "Breaking records and breaking boards", 1978); a trial that is the best closes SHARE of
the gap to the limit. Before its first time, a problem's best is its baseline. A problem whose stop rule (sol.budget)
holds gets no further trial.

Replayed over our benches of the H200 (engine/results/bench-*-h200-2026-11-21.json; no stop rule), the share of the
whole saving after 15, 30 and 60% of the trials, and in turn: suite59, on which this rule was chosen, 0.95, 0.99, 1.00
(0.69, 0.96, 1.00); modules outside of it 0.64, 0.87, 0.99 (0.52, 0.67, 0.87); held-out ones 0.77, 0.88, 0.99 (0.60,
0.87, 0.96). Between, it is behind by at most 0.1% of the saving on suite59, and 3% on the held-out modules, which have
four trials each. An estimate from the last trials of each problem, which was here before, was behind by 1.3 and 6.3%.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sol.budget import Recorded, should_stop

SHARE = 0.3  # of the gap to the limit, closed by a trial that is the best so far; it does not change the order


@dataclass(frozen=True)
class Progress:
    """The state of one problem. `times`: of its trials in order, in ms, None for a failed one; `budget`: the most
    trials that it may get; `weight`: the weight of a millisecond saved."""

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
    """The next problem and the reason. `saving_ms`: the expected saving times the weight."""

    name: str
    saving_ms: float
    why: str


def expected_saving(p: Progress) -> float:
    """Milliseconds (times weight) that one more trial is expected to save."""
    now = min(p.baseline_ms, p.best_ms if p.best_ms is not None else p.baseline_ms)
    return p.weight * max(0.0, now - p.t_sol_ms) * SHARE / (len(p.times) + 1)


def next_turn(problems: Sequence[Progress], eps: float = 0.25, window: int = 12) -> Turn | None:
    """The problem that gets the next trial; None when each has reached its budget or stop rule. Ties go to the
    first."""
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
    """The sum over problems of the best times (or the baseline if none beat it) after `trials` trials in all."""

    trials: int
    total_ms: float


def simulate(sessions: Sequence[Recorded], trials: int, eps: float = 0.25, window: int = 12) -> list[Step]:
    """Replay recorded sessions under this scheduler, up to `trials` trials in all. Each problem's trials come in their
    recorded order. The first step is before any trial."""
    runs: dict[str, int] = {s.name: 0 for s in sessions}

    def state() -> list[Progress]:
        return [
            Progress(s.name, s.t_sol_ms, s.baseline_ms, tuple(t.ms for t in s.trials[: runs[s.name]]), len(s.trials))
            for s in sessions
        ]

    def total() -> float:
        return sum(min(p.baseline_ms, p.best_ms if p.best_ms is not None else p.baseline_ms) for p in state())

    steps = [Step(0, total())]
    while steps[-1].trials < trials and (turn := next_turn(state(), eps, window)):
        runs[turn.name] += 1
        steps.append(Step(steps[-1].trials + 1, total()))
    return steps


def in_turn(sessions: Sequence[Recorded], trials: int) -> list[Step]:
    """Replay without a scheduler: the first trial of every problem, then the second of every problem, and so on."""
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
