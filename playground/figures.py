"""A session's figures for the page and the API: engine.session.fold.figures of its log, kept until the log grows.

The server draws, and the page shows: it asks for the figures again when an event changed what they show (the view's
`figures_seq`), at most twice a second, and gives the JSON to Plotly.react, which keeps zoom and selection. So a figure
is built in one place, by one library, for a live session, a replay (`seq`), a report and an export; the page holds no
builder that could disagree. All viewers of a session ask for the same `seq` and share the answer.
"""

from __future__ import annotations

import functools
import json
from typing import Any

from engine.session.fold import figures
from playground.live import log
from playground.models import Blob, Session

NAMES = figures.NAMES


def of(
    session: Session, trial: int | None = None, names: tuple[str, ...] = NAMES, seq: int | None = None
) -> dict[str, Any]:
    """One entry a name: {figure: {data, layout}, rows, title, caption}, or None while there is nothing to draw.

    `trial`: whose time stages, shares and waterfall take apart; the best one otherwise. `seq`: the session as it was at
    that event.
    """
    at = session.last_seq if seq is None else min(seq, session.last_seq)
    return _of(session.id, at, trial, names)


@functools.lru_cache(maxsize=256)
def _of(session_id: str, seq: int, trial: int | None, names: tuple[str, ...]) -> dict[str, Any]:
    view = log.view(session_id, seq)
    drawn = figures.of(view, _report(view.report), trial, names)
    return {name: None if figure is None else figure.to_json() for name, figure in drawn.items()}


def _report(name: str) -> dict[str, Any] | None:
    """A SOL report by the name of its blob; None where it is not kept."""
    found = Blob.objects.filter(sha256=name).first() if name else None
    return None if found is None else json.loads(found.text)
