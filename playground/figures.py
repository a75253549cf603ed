"""A session's figures for the page and the API: engine.session.fold.figures of its log, cached until the log grows.

The server builds the figures. The page requests them again when an event changed them (the view's `figures_seq`), at
most twice a second, and passes the JSON to Plotly.react, which keeps zoom and selection. So one place and one library
build a figure for a live session, a replay (`seq`), a report and an export, and they cannot disagree. All viewers of a
session request the same `seq` and share the answer.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from engine.session.fold import figures, next_step
from engine.session.fold.reduce import View
from playground.live import log
from playground.models import Blob, Session

NAMES = figures.NAMES


def of(
    session: Session, trial: int | None = None, names: tuple[str, ...] = NAMES, seq: int | None = None
) -> dict[str, Any]:
    """One entry per name: {figure: {data, layout}, rows, title, caption}, or None while there is nothing to draw.

    `trial`: the trial whose time stages, shares and waterfall break down, by default the best. `seq`: show the session
    at that event.
    """
    at = session.last_seq if seq is None else min(seq, session.last_seq)
    return _of(session.id, at, trial, names)


@functools.lru_cache(maxsize=256)
def _of(session_id: str, seq: int, trial: int | None, names: tuple[str, ...]) -> dict[str, Any]:
    view = _view(session_id, seq)
    built = figures.of(view, _report(session_id, view.report), trial, names)
    return {name: None if figure is None else figure.to_json() for name, figure in built.items()}


def limit(session: Session, seq: int | None = None) -> str:
    """What limits the best program at an event and what to try next, in one sentence; "" before it has a time."""
    return _limit(session.id, session.last_seq if seq is None else min(seq, session.last_seq))


@functools.lru_cache(maxsize=256)
def _limit(session_id: str, seq: int) -> str:
    view = _view(session_id, seq)
    return next_step.sentence(view, _report(session_id, view.report))


@functools.lru_cache(maxsize=2)
def _view(session_id: str, seq: int) -> View:
    """A page asks for its figures and for the sentence of one event at the same time: the log is folded once."""
    return log.view(session_id, seq)


def _report(session_id: str, name: str) -> dict[str, Any] | None:
    """A SOL report by the name of its blob; None if it is not stored."""
    blob = Blob.objects.filter(sha256=name, sessions=session_id).first() if name else None
    return None if blob is None else json.loads(blob.text)
