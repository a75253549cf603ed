"""Recorded sessions under other stop rules: `python -m engine replay SESSIONS`.

A recording is folded (engine.session.fold.reduce) and becomes one sol.budget.Recorded per precision class. sol.replay
reads the results of a bench, and prints both.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.session import events, recording
from engine.session.fold.reduce import View, fold
from sol import replay
from sol.budget import Recorded, Trial


def spending(rows: Iterable[recording.Row]) -> dict[int, dict[str, float]]:
    """Trial -> what the session spent from the end of the trial before it to its own end: seconds, and a model's tokens
    and money (US dollars) as the ledger has them."""
    spent: dict[int, dict[str, float]] = {}
    since: dict[str, float] = {}
    last: float | None = None
    for row in rows:
        match row.event:
            case events.Progress(step="search") | events.Resumed():
                last = row.t
            case events.Answered() as a:
                for kind, value in (
                    ("tokens", sum(a.tokens.get(k, 0) for k in ("in", "out"))),
                    ("money", a.cost or 0.0),
                ):
                    if value:
                        since[kind] = since.get(kind, 0.0) + value
            case events.TrialJudged() | events.TrialUntimed() | events.TrialFailed() as end:
                spent[end.trial] = since | {"seconds": max(0.0, row.t - (row.t if last is None else last))}
                since, last = {}, row.t
    return spent


def recorded(view: View, name: str, spent: Mapping[int, Mapping[str, float]] = {}) -> list[Recorded]:
    """Every class of a session that has a limit, a baseline and a trial. `spent`: as `spending` returns it. A trial
    that failed, or whose time is no result, counts as a trial without gain. The owner's own trials and the
    session's last ones are no part of the search, nor is a raw kernel that could have no time."""
    trials: dict[str, list[Trial]] = {}
    for t in view.trials.values():
        if t.ended and t.untimed is None and t.of_search:
            trials.setdefault(t.cls, []).append(
                Trial(
                    t.judged.ms if view.counts(t) else None,
                    spent=dict(spent.get(t.number, {})),
                    t_sol_ms=view.bounds.get(t.roof) if t.roof != t.cls else None,
                )
            )
    return [
        Recorded(f"{name} ({cls})", tuple(ended), view.bounds[cls], baseline.ms, baseline.kind == "predicted")
        for cls, ended in trials.items()
        if cls in view.bounds and (baseline := view.baseline(cls)) is not None and baseline.ms is not None
    ]


def read(path: Path) -> list[Recorded]:
    """The classes of one recording. Raises OSError, and ValueError for a file that is no recording."""
    try:
        rows = recording.read(path).rows
        return recorded(fold(rows), path.stem, spending(rows))
    except (recording.RecordingError, UnicodeDecodeError) as e:
        raise ValueError(f"{path}: {e}") from None


def run(args: argparse.Namespace) -> str:
    """The text to print. Raises ValueError and OSError in words for a person."""
    return replay.show(args, replay.load(args.sessions, read))
