"""The figures of a comparison, from the rows of its sessions (engine.bench.compare.row).

own best        PyTorch's time over that of the fastest trial that counts; below 1 if that is slower than PyTorch. None
                for an unsolved problem, where no trial counts.
PyTorch kept    the same, and 1 where no trial is faster than PyTorch: what a user gets, who keeps PyTorch there.
Fast-p          the share of sessions whose own best is more than p (KernelBench); an unsolved one is in no share.
Attempt-Fast-p  the share of sessions whose own best within the first k attempts is at least p, as a curve over k.
                An attempt is a trial, in the order of their ends; a session that ended early keeps its last value. The
                μCUTLASS study (arXiv 2603.29010) names the measure; this wording of it is ours.
near the best   the same with p = 95% of the best known: of the fastest trial that counts of any arm on the problem.
                Arms that all reach it differ in how soon.
signed area     of arm A against arm B: the mean over k of the difference of their Attempt-Fast-p, from -1 to 1. It is
                positive where A reaches p on more problems, or on as many of them earlier.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from math import exp, log
from statistics import mean, median, pstdev
from typing import Any

Row = dict[str, Any]
PS = (1.0, 1.5, 2.0, 3.0)
NEAR = 0.95  # of the best known
KINDS = ("model", "build", "verify", "time", "profile", "pytorch", "trace", "think")


def passes(trial: dict[str, Any], off: Collection[str] = ()) -> bool:
    """Return True if a trial's time counts. `off`: filters that are switched off; with `*`, all."""
    if not trial.get("ratio"):
        return False
    bad = trial.get("bad", [])
    return trial["counts"] or (bool(bad) and ("*" in off or all(name in off for name in bad)))


def best(row: Row, attempts: int | None = None, off: Collection[str] = ()) -> float | None:
    """The own best of a session, within its first attempts."""
    return max((t["ratio"] for t in row["trials"][:attempts] if passes(t, off)), default=None)


def with_pytorch(speedup: float | None) -> float:
    """The speedup of a user who keeps PyTorch where it is faster."""
    return max(1.0, speedup or 1.0)


def geomean(values: Iterable[float]) -> float | None:
    logs = [log(v) for v in values if v > 0]
    return exp(sum(logs) / len(logs)) if logs else None


def fast_p(rows: Sequence[Row], p: float) -> float:
    return sum((best(row) or 0.0) > p for row in rows) / len(rows) if rows else 0.0


def attempt_fast_p(rows: Sequence[Row], p: float, most: int) -> list[float]:
    """For k from 1 to `most`."""
    return [sum((best(r, k) or 0.0) >= p for r in rows) / len(rows) for k in range(1, most + 1)] if rows else []


def signed_area(a: Sequence[float], b: Sequence[float]) -> float:
    """Of two curves of Attempt-Fast-p of the same length."""
    return mean(x - y for x, y in zip(a, b, strict=True)) if a else 0.0


def most_attempts(rows: Iterable[Row]) -> int:
    return max((len(row["trials"]) for row in rows), default=0)


def groups(rows: Iterable[Row], of: Callable[[Row], Any]) -> dict[Any, list[Row]]:
    """Rows by a key, in the order of their first row."""
    by: dict[Any, list[Row]] = {}
    for row in rows:
        by.setdefault(of(row), []).append(row)
    return by


def summary(rows: Sequence[Row]) -> dict[str, Any]:
    """Of the sessions of one arm. `unsolved`: no trial counts; `slower`: the own best is slower than PyTorch;
    `deviation`: the standard deviation of `kept_geomean` over seeds, None for fewer than two."""
    own = [best(row) for row in rows]
    solved = [s for s in own if s is not None]
    seeds = {
        seed: geomean(with_pytorch(best(r)) for r in some) for seed, some in groups(rows, lambda r: r["seed"]).items()
    }  # fmt: skip
    costs = [row["cost"] for row in rows if row["cost"] is not None]
    failures: Counter[str] = Counter()
    for row in rows:
        failures.update(where(t) for t in row["trials"] if not t["counts"])
    return {
        "sessions": len(rows), "unsolved": len(rows) - len(solved), "slower": sum(s <= 1 for s in solved),
        "own_geomean": geomean(solved), "own_median": median(solved) if solved else None,
        "kept_geomean": geomean(map(with_pytorch, own)), "kept_median": median(map(with_pytorch, own)) if own else None,
        "by_seed": {str(seed): value for seed, value in seeds.items()},
        "deviation": pstdev(seeds.values()) if len(seeds) > 1 else None,
        "fast_p": {f"{p:g}": fast_p(rows, p) for p in PS},
        "trials": mean(len(r["trials"]) for r in rows), "evaluations": mean(r["evaluations"] for r in rows),
        "tokens": mean(r["tokens"].get("in", 0) + r["tokens"].get("out", 0) for r in rows),
        "turns": mean(r["turns"] for r in rows), "unknown_turns": sum(r["unknown"] for r in rows),
        "cost": sum(costs) if costs else None,
        "seconds": {kind: mean(r["seconds"].get(kind, 0.0) for r in rows) for kind in (*KINDS, "all")},
        "failures": dict(failures.most_common()),
        "states": dict(Counter(f"{r['state']}" + (f" ({r['code']})" if r["code"] else "") for r in rows)),
    }  # fmt: skip


def unsolved(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One row a problem and arm with sessions none of whose trials counts: {problem, arm, sessions, all, failures: step
    -> trials, words: step -> the first message, and `end` -> why a session without trials, or one that failed, ended}.
    An old row has no messages; there the code stands."""
    lines = []
    for (problem, arm), some in groups(rows, lambda r: (r["problem"], r["arm"])).items():
        mine = [row for row in some if best(row) is None]
        failures: Counter[str] = Counter()
        words: dict[str, str] = {}
        for row in mine:
            failures.update(where(t) for t in row["trials"])
            for t in row["trials"]:
                step = where(t)
                known = row.get("words", {}).get(step) or t.get("code") or ", ".join(t.get("bad", []))
                words.setdefault(step, known)
            if row["reason"] and (row["state"] != "done" or not row["trials"]):
                words.setdefault("end", row["reason"])
        if mine:
            lines.append({"problem": problem, "arm": arm, "sessions": len(mine), "all": len(some),
                          "failures": dict(failures), "words": words})  # fmt: skip
    return lines


def where(trial: dict[str, Any]) -> str:
    """The step at which a trial that does not count ended: check, .., measure, or judge for a verdict."""
    return trial.get("step") or "judge"


def curves(rows: Sequence[Row], p: float) -> dict[str, list[float]]:
    """Arm -> its Attempt-Fast-p."""
    most = most_attempts(rows)
    return {arm: attempt_fast_p(some, p, most) for arm, some in groups(rows, lambda r: r["arm"]).items()}


def areas(rows: Sequence[Row], p: float) -> dict[str, dict[str, float]]:
    """Arm -> other arm -> signed area."""
    by = curves(rows, p)
    return {a: {b: signed_area(by[a], by[b]) for b in by if b != a} for a in by}


def against_the_best(rows: Sequence[Row]) -> list[Row]:
    """The rows with each trial's speed as a share of the best known of its problem; problems that no arm solved stay
    unsolved."""
    known = {
        problem: max((s for r in some if (s := best(r)) is not None), default=None)
        for problem, some in groups(rows, lambda r: r["problem"]).items()
    }
    return [
        row | {"trials": [
            t | {"ratio": t["ratio"] / top if t.get("ratio") and (top := known[row["problem"]]) else None}
            for t in row["trials"]
        ]}
        for row in rows
    ]  # fmt: skip


def by_spending(rows: Sequence[Row], unit: str, points: int = 40) -> list[tuple[float, float]]:
    """(mean spending of a session, geometric mean with PyTorch kept) of an arm, for growing limits of a session's
    tokens, evaluations (`used`), dollars (`cost`) or seconds (`t`)."""
    most = max((t.get(unit, 0) for row in rows for t in row["trials"]), default=0)
    line = []
    for i in range(points + 1):
        limit, spent, speed = most * i / points, 0.0, []
        for row in rows:
            within = [t for t in row["trials"] if t.get(unit, 0) <= limit]
            spent += max((t.get(unit, 0) for t in within), default=0)
            speed.append(with_pytorch(max((t["ratio"] for t in within if passes(t)), default=None)))
        line.append((spent / len(rows), geomean(speed) or 1.0))
    return line
