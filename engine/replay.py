"""Recorded sessions under other stop rules: `python -m engine replay SESSIONS`.

A recording is folded (engine.session.fold.reduce) and becomes one sol.budget.Recorded per precision class. sol.replay
reads the results of a bench, and prints both.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from engine.session import recording
from engine.session.fold.reduce import View, fold
from sol import replay
from sol.budget import Recorded, Trial


def recorded(view: View, name: str) -> list[Recorded]:
    """Every class of a session that has a limit, a baseline and a trial. A trial that failed, or whose time is no
    result, counts as a trial without gain. The owner's own trials are no part of the search, nor is a raw kernel that
    could have no time."""
    trials: dict[str, list[Trial]] = {}
    for t in view.trials.values():
        if t.ended and t.untimed is None and t.by != "owner":
            trials.setdefault(t.cls, []).append(Trial(t.judged.ms if view.counts(t) else None))
    return [
        Recorded(f"{name} ({cls})", tuple(ended), view.bounds[cls], baseline.ms, baseline.kind == "predicted")
        for cls, ended in trials.items()
        if cls in view.bounds and (baseline := view.baseline(cls)) is not None and baseline.ms is not None
    ]


def read(path: Path) -> list[Recorded]:
    """The classes of one recording. Raises OSError, and ValueError for a file that is no recording."""
    try:
        return recorded(fold(recording.read(path).rows), path.stem)
    except (recording.RecordingError, UnicodeDecodeError) as e:
        raise ValueError(f"{path}: {e}") from None


def run(args: argparse.Namespace) -> str:
    """The text to print. Raises ValueError and OSError in words for a person."""
    return replay.show(args, replay.load(args.sessions, read))
