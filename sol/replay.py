"""Read recorded sessions for replay, one Recorded per precision class.

A file is either JSON lines as the engine records a session, or the results of `python -m engine bench`, which are one
session per module and class. Only the limits, the baselines and each trial's end are read; a file of another kind
raises one error. Baselines are those of a live session: PyTorch in the class itself, so autocast for half precision.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sol.budget import Policy, Recorded, Replay, Trial


def recorded(text: str, name: str) -> list[Recorded]:
    """Every class of one session that has a limit, a baseline and a trial. Raises ValueError that names the wrong
    line."""
    limits: dict[str, float] = {}
    baselines: dict[str, float] = {}
    trials: dict[str, list[Trial]] = {}
    cls_of: dict[int, str] = {}
    rows = 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row: dict[str, Any] = json.loads(line)
            if "kind" not in row:
                continue  # the blobs at the end
            kind, data = row["kind"], row["data"]
            if kind == "reported":
                limits = {str(c): float(v) for c, v in data["bounds"].items()}
            elif kind == "baseline":
                baselines.setdefault(data["cls"], float(data["time"]["ms"]))
            elif kind == "trial.proposed":
                cls_of[data["trial"]] = data["cls"]
            elif kind == "trial.judged":
                counts = data["verdict"] in ("clean", "minor")
                trials.setdefault(data["cls"], []).append(Trial(float(data["ms"]) if counts else None))
            elif kind == "trial.failed":
                trials.setdefault(cls_of.get(data["trial"], ""), []).append(Trial(None))
        except (KeyError, TypeError, ValueError, AttributeError) as e:
            raise ValueError(f"{name}, line {number}: not an event of a recorded session ({e})") from None
        rows += 1
    if not rows:
        raise ValueError(f"{name}: no events in it; give files that `python -m engine optimize --json` wrote")
    return [
        Recorded(f"{name} ({cls})", tuple(own), limits[cls], baselines[cls])
        for cls, own in trials.items()
        if cls in limits and cls in baselines
    ]


FLAGGED = 0.9  # a time below this share of the limit is never a result
HALF = ("f16", "bf16")


def of_bench(text: str, name: str) -> list[Recorded]:
    """Every module and class of a bench with a limit, a baseline and a trial, in the file's order. Trials are in the
    order in which they ran. A trial whose time is below `FLAGGED` of the limit counts as failed. Raises ValueError."""
    try:
        problems = json.loads(text)["problems"]
        return [
            session
            for module, row in problems.items()
            for cls, limit in row["limits"].items()
            if (session := _benched(f"{row['id']} {module} ({cls})", row, cls, float(limit)))
        ]
    except (KeyError, TypeError, ValueError, AttributeError) as e:
        raise ValueError(f"{name}: not the results of a bench ({type(e).__name__}: {e})") from None


def _benched(name: str, row: dict[str, Any], cls: str, limit: float) -> Recorded | None:
    baseline = row["baselines"].get("eager_f16" if cls in HALF else "eager_tf32", {}).get("ms")
    trials = tuple(
        Trial(float(t["ms"]) if t["ok"] and t.get("ms", 0) >= FLAGGED * limit else None)
        for t in row["trials"]
        if t["class"] == cls
    )
    return Recorded(name, trials, limit, float(baseline)) if trials and baseline else None


def load(paths: Iterable[str]) -> list[Recorded]:
    """All sessions of files (those of a bench end in `.json`) and of folders of `*.jsonl`. Raises OSError, or
    ValueError when there is none."""
    sessions: list[Recorded] = []
    for source in map(Path, paths):
        for path in sorted(source.glob("*.jsonl")) if source.is_dir() else [source]:
            read = of_bench if path.suffix == ".json" else recorded
            sessions += read(path.read_text(encoding="utf-8"), path.stem)
    if not sessions:
        raise ValueError("no recorded session with a limit, a baseline and a trial in these files")
    return sessions


def best(grid: Iterable[Policy], keep: float) -> Policy | None:
    """The policy that saves most and keeps at least this share of the speedup; None if there is none."""
    good = [p for p in grid if p.speedup_kept >= keep]
    return max(good, key=lambda p: (p.cost_saved, p.speedup_kept), default=None)


def sessions_table(replays: Iterable[Replay]) -> str:
    """One line per session, aligned for a terminal."""
    head = ("session", "trials", "saved", "speedup", "kept", "why it stopped")
    rows = [
        (
            r.name,
            f"{r.trials_run}/{r.trials_total}",
            f"{r.cost_saved:.0%}",
            f"{r.speedup:.2f}x",
            f"{r.speedup_kept:.1%}",
            r.reason,
        )
        for r in replays
    ]
    return _aligned([head, *rows])


def policies_table(policies: Iterable[Policy]) -> str:
    """One line per policy."""
    head = ("eps", "window", "trials saved", "speedup kept", "efficiency gain")
    rows = [
        (f"{p.eps:g}", str(p.window), f"{p.trials_saved:.0%}", f"{p.speedup_kept:.1%}", f"{p.efficiency:.2f}x")
        for p in policies
    ]
    return _aligned([head, *rows])


def _aligned(rows: list[tuple[str, ...]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(f"{c:{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)
