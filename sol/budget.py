"""When to stop: gap and score, the (eps, window) rules, and the cost of a finished session under other rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sol.model.tiles import LAUNCH_MS

KINDS = ("trials", "tokens", "money", "seconds")  # of costs; money in US dollars
EPSILONS = (0.05, 0.1, 0.15, 0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0)
WINDOWS = (2, 3, 4, 6, 8, 12, 16, 24)
STUDY = (2.5, 12)  # (eps, window) of the best policy of the μCUTLASS study (arXiv 2603.29010)


def gap(ms: float, t_sol_ms: float) -> float:
    """g = t / t_sol: 1 at the limit. A limit of zero (nothing to do) gives infinity, or 1 for a time of zero."""
    if t_sol_ms <= 0:
        return 1.0 if ms <= 0 else float("inf")
    return ms / t_sol_ms


def launch_binds(t_sol_ms: float) -> bool:
    """Return True for a limit so far below the launch of a kernel that a multiple of it says nothing."""
    return 0 < t_sol_ms < LAUNCH_MS / 4


def gap_says_nothing(ms: float, g: float | None) -> bool:
    """Return True for a time and its gap whose limit is hidden by the launch of a kernel; False without a gap."""
    return bool(g) and launch_binds(ms / g)


def times_limit(g: float, t_sol_ms: float) -> str:
    """A gap in words: `1.40 times the limit`."""
    return "bound by launches" if launch_binds(t_sol_ms) else f"{g:.2f} times the limit"


def score(ms: float, t_sol_ms: float, baseline_ms: float) -> float:
    """S = 1 / (1 + (t - t_sol) / (t_base - t_sol)): 0.5 at the baseline, 1 at the limit (SOL-ExecBench).

    A time below the limit scores 1 (integrity is judged elsewhere). A baseline at or below the limit leaves no room:
    then a time at the limit scores 1 and any other time 0.
    """
    over, room = max(0.0, ms - t_sol_ms), baseline_ms - t_sol_ms
    if room <= 0:
        return 1.0 if over == 0 else 0.0
    return 1.0 / (1.0 + over / room)


@dataclass(frozen=True)
class Stop:
    """Why a class needs no further trial. `code`: near_limit (within `eps` of the limit) | stalled (the last `trials`
    brought nothing better). Times in ms."""

    code: str
    best_ms: float
    limit_ms: float
    eps: float
    trials: int

    def __str__(self) -> str:
        if self.code == "near_limit":
            return f"within {self.eps:.0%} of the limit: {self.best_ms:.3g} ms against {self.limit_ms:.3g} ms"
        trials = "1 trial" if self.trials == 1 else f"{self.trials} trials"
        return f"{trials} in a row brought nothing better than {self.best_ms:.3g} ms"


def should_stop(
    best_ms: float | None,
    baseline_ms: float | None,
    t_sol_ms: float,
    trials_since_best: int,
    eps: float,
    window: int,
) -> Stop | None:
    """The reason to stop, or None to go on.

    Only a best that beats the baseline can stop a session: near the limit (t <= (1 + eps) t_sol), or stalled (`window`
    trials without a better one; with a window of 0, never).
    """
    if best_ms is None or baseline_ms is None or best_ms >= baseline_ms:
        return None
    g = gap(best_ms, t_sol_ms)
    if g <= 1 + eps:
        return Stop("near_limit", best_ms, t_sol_ms, eps, trials_since_best)
    if window > 0 and trials_since_best >= window:
        return Stop("stalled", best_ms, t_sol_ms, eps, trials_since_best)
    return None


@dataclass(frozen=True)
class Trial:
    """One recorded trial: its time in ms (None: failed), its `cost` in any unit, and what it took of the KINDS that its
    session recorded (`spent`), with the turns of a model before it. `t_sol_ms`: its limit, where that is not its
    class's (None), as under a guard: the limit of the class of its products."""

    ms: float | None
    cost: float = 1.0
    spent: Mapping[str, float] = field(default_factory=dict)
    t_sol_ms: float | None = None


@dataclass(frozen=True)
class Recorded:
    """A finished session for replay: its trials in order, all of one precision class. `predicted`: its times are."""

    name: str
    trials: tuple[Trial, ...]
    t_sol_ms: float
    baseline_ms: float
    predicted: bool = False


@dataclass(frozen=True)
class Replay:
    """A session under (eps, window). `saved`: share of each recorded kind of cost. `efficiency` = (g_policy / g_fixed)
    * (cost_fixed / cost_policy), with g the speedup over the baseline: above 1, the policy gets more speedup for its
    cost than the whole session."""

    name: str
    trials_run: int
    trials_total: int
    cost_saved: float  # share of the recorded cost
    best_ms: float | None
    speedup: float
    speedup_kept: float
    efficiency: float
    reason: str
    saved: Mapping[str, float] = field(default_factory=dict)

    @property
    def trials_saved(self) -> int:
        return self.trials_total - self.trials_run


def replay(session: Recorded, eps: float, window: int) -> Replay:
    """Cut the session where the rules would have ended it. Without a better trial, the speedup is 1: the baseline."""
    best: float | None = None
    since, run, reason, limit = 0, 0, "the budget was used up", session.t_sol_ms
    for trial in session.trials:
        run += 1
        if trial.ms is not None and (best is None or trial.ms < best):
            best, since = trial.ms, 0
            limit = session.t_sol_ms if trial.t_sol_ms is None else trial.t_sol_ms
        else:
            since += 1
        stop = should_stop(best, session.baseline_ms, limit, since, eps, window)
        if stop:
            reason = str(stop)
            break
    full = min((t.ms for t in session.trials if t.ms is not None), default=None)
    spent = sum(t.cost for t in session.trials[:run])
    total = sum(t.cost for t in session.trials)
    speedup, full_speedup = _speedup(best, session.baseline_ms), _speedup(full, session.baseline_ms)
    return Replay(
        session.name,
        run,
        len(session.trials),
        1 - spent / total if total else 0.0,
        best,
        speedup,
        speedup / full_speedup,
        (speedup / full_speedup) * (total / spent) if spent else 1.0,
        reason,
        saved([session], [run]),
    )


def saved(sessions: Sequence[Recorded], run: Sequence[int]) -> dict[str, float]:
    """The share of each kind of cost that is saved if only the first `run` trials of each session run; without a kind
    that no session recorded."""
    shares = {}
    for kind in KINDS[1:]:
        total = sum(t.spent.get(kind, 0.0) for s in sessions for t in s.trials)
        spent = sum(t.spent.get(kind, 0.0) for s, n in zip(sessions, run, strict=True) for t in s.trials[:n])
        if total:
            shares[kind] = 1 - spent / total
    return shares


def charged(sessions: Sequence[Recorded], kind: str) -> list[Recorded]:
    """The sessions with a kind of KINDS as the cost of each trial. Raises ValueError if none recorded it."""
    if kind != "trials" and not any(t.spent.get(kind) for s in sessions for t in s.trials):
        raise ValueError(f"no session recorded {kind}; `--cost trials` counts trials")
    return [
        replace(s, trials=tuple(replace(t, cost=1.0 if kind == "trials" else t.spent.get(kind, 0.0)) for t in s.trials))
        for s in sessions
    ]


def _speedup(ms: float | None, baseline_ms: float) -> float:
    return max(1.0, baseline_ms / ms) if ms else 1.0


@dataclass(frozen=True)
class Policy:
    """One (eps, window) over many sessions: shares saved (`saved`: of each recorded kind of cost) and the geometric
    mean of the speedup kept."""

    eps: float
    window: int
    trials_saved: float
    cost_saved: float
    speedup_kept: float
    efficiency: float
    saved: Mapping[str, float] = field(default_factory=dict)


def policy(sessions: Sequence[Recorded], eps: float, window: int) -> Policy:
    """Raises ValueError without sessions."""
    if not sessions:
        raise ValueError("replay needs at least one recorded session")
    runs = [replay(s, eps, window) for s in sessions]
    total = sum(r.trials_total for r in runs)
    cost = sum(t.cost for s in sessions for t in s.trials)
    spent = sum(t.cost for s, r in zip(sessions, runs, strict=True) for t in s.trials[: r.trials_run])
    speedup_kept = 1.0
    for r in runs:
        speedup_kept *= r.speedup_kept ** (1 / len(runs))
    return Policy(
        eps,
        window,
        sum(r.trials_saved for r in runs) / total if total else 0.0,
        1 - spent / cost if cost else 0.0,
        speedup_kept,
        speedup_kept * cost / spent if spent else 1.0,
        saved(sessions, [r.trials_run for r in runs]),
    )


def sweep(
    sessions: Sequence[Recorded],
    epsilons: Sequence[float] = EPSILONS,
    windows: Sequence[int] = WINDOWS,
) -> tuple[list[Policy], list[Policy]]:
    """Every policy of the grid, and the Pareto front of cost saved against speedup kept, by rising saving. Of policies
    with equal results, the front has the one with the smallest eps and the longest window."""
    grid = [policy(sessions, e, w) for e in epsilons for w in windows]
    front = [
        p
        for p in grid
        if not any(
            q.cost_saved >= p.cost_saved
            and q.speedup_kept >= p.speedup_kept
            and (q.cost_saved, q.speedup_kept) != (p.cost_saved, p.speedup_kept)
            for q in grid
        )
    ]
    front.sort(key=lambda p: (p.cost_saved, p.eps, -p.window))
    first = {(p.cost_saved, p.speedup_kept): p for p in reversed(front)}
    return grid, [p for p in front if first[p.cost_saved, p.speedup_kept] is p]
