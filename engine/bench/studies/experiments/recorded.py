"""Search policies on logs of sessions that an H200 measured: nothing runs, and no chance is involved.

A log holds the trials that one search ran in its order. A policy can leave trials out; it cannot be told what another
search would have tried in their place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from engine import replay as recordings
from engine.bench.compare.metrics import Row, attempt_fast_p, signed_area
from sol import budget, replay, schedule
from sol.budget import Recorded, Trial

ROOT = Path(__file__).resolve().parents[4]
RESULTS = ROOT / "engine/results"
POLICIES = ("engine/results/bench-f16-h200-2026-11-21.json", "playground/recordings")
BENCHES = ("suite59", "outside", "heldout")
SHARES = (0.15, 0.3, 0.6)  # of the trials
KEEP = 0.96
KNOWN = {
    "policies": (
        "What stopping earlier saves",
        "It shows what stop rules save on searches that ran to the end of a generous budget.",
        "It cannot show what the saved trials would have brought on other problems, nor how a model's search stalls: "
        "the planner searched.",
    ),
    "scheduler": (
        "One budget over all problems",
        "It shows how much of the whole saving a schedule reaches early, on three sets of modules, of which the rule "
        "was chosen on the first.",
        "It cannot show a search that reacts to its own turns, because each problem's trials come in their order.",
    ),
    "attempts": (
        "Attempt-Fast-p of the planner",
        "It shows within how many trials the planner reaches a speed, by class and set.",
        "It compares no strategies: one strategy ran.",
    ),
}


def all_of_it() -> dict[str, Any]:
    return {"policies": policies(), "scheduler": scheduler(), "attempts": attempts()}


def policies() -> dict[str, Any]:
    sessions = replay.load([str(ROOT / path) for path in POLICIES], recordings.read)
    return {"from": list(POLICIES), "sessions": len(sessions), **of_sessions(sessions, "trials")}


def of_sessions(sessions: Sequence[Recorded], cost: str) -> dict[str, Any]:
    """The best policy that keeps KEEP of the speedup by a kind of cost, that of the study, and the page's default."""
    charged = budget.charged(sessions, cost)
    grid, front = budget.sweep(charged)
    chosen = replay.best(grid, KEEP)
    return {
        "cost": cost, "trials": sum(len(s.trials) for s in sessions), "best": asdict(chosen) if chosen else None,
        "study": asdict(budget.policy(charged, *budget.STUDY)), "default": asdict(budget.policy(charged, 0.25, 6)),
        "front": [asdict(p) for p in front],
    }  # fmt: skip


def scheduler() -> list[dict[str, Any]]:
    """The share of the whole saving after a share of the trials, by the expected saving and in turn."""
    rows = []
    for which in BENCHES:
        sessions = _bench(which)
        many = sum(len(s.trials) for s in sessions)
        sol, turn = schedule.simulate(sessions, many, 0.0, 0), schedule.in_turn(sessions, many)
        rows += [
            {"set": which, "sessions": len(sessions), "trials": many, "after": share,
             "sol": _saving(sol, turn, share), "in_turn": _saving(turn, turn, share)}
            for share in SHARES
        ]  # fmt: skip
    return rows


def _saving(steps: Sequence[schedule.Step], whole: Sequence[schedule.Step], share: float) -> float:
    first, last = whole[0].total_ms, whole[-1].total_ms
    at = steps[min(len(steps) - 1, round(share * whole[-1].trials))].total_ms
    return (first - at) / (first - last) if first > last else 1.0


def attempts() -> list[dict[str, Any]]:
    """Attempt-Fast-p by set and class, and the signed area of f16 against tf32."""
    rows = []
    for which in BENCHES:
        curves = {}
        for p in (1.0, 2.0):
            for cls in ("tf32", "f16"):
                some = [row_of(s) for s in _bench(which) if s.name.endswith(f"({cls})")]
                curves[cls] = attempt_fast_p(some, p, 12)
                shown = {str(k): round(curves[cls][k - 1], 4) for k in (1, 2, 4, 8, 12)}
                rows.append({"set": which, "class": cls, "p": p, "problems": len(some), "within": shown})
            rows[-1]["area_over_tf32"] = round(signed_area(curves["f16"], curves["tf32"]), 4)
    return rows


def row_of(session: Recorded) -> Row:
    """A recorded session with the fields that the figures of a comparison read."""
    return {
        "trials": [
            {"ms": t.ms, "ratio": session.baseline_ms / t.ms if t.ms else None, "counts": t.ms is not None}
            for t in session.trials
        ]
    }  # fmt: skip


def of_row(row: Row) -> Recorded | None:
    """A session of a comparison for replay, with its tokens, money and seconds; None without a limit or a trial."""
    if not row["trials"] or not row["limit_ms"] or not row["baseline_ms"]:
        return None
    trials, before = [], {"tokens": 0.0, "cost": 0.0, "t": 0.0}
    for t in row["trials"]:
        now = {name: float(t.get(name, 0.0)) for name in before}
        spent = {"tokens": now["tokens"] - before["tokens"], "money": now["cost"] - before["cost"],
                 "seconds": now["t"] - before["t"]}  # fmt: skip
        trials.append(Trial(t["ms"] if t["counts"] else None, spent={k: v for k, v in spent.items() if v > 0}))
        before = now
    name = f"{row['problem']} {row['arm']} {row['skill']} {row['seed']}"
    return Recorded(name, tuple(trials), row["limit_ms"], row["baseline_ms"], row["kind"] == "predicted")


def _bench(which: str) -> list[Recorded]:
    path = max(RESULTS.glob(f"bench-{which}-*.json"), key=lambda p: p.stem[-10:])
    return replay.of_bench(path.read_text(encoding="utf-8"), path.stem)
