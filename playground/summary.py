"""The folded values in a session's row, so that a list reads no log: `engine.session.fold.listing`.

The process that writes the log (an engine, with many sessions in as many threads) keeps the views that its rows were
folded from, so an append costs its own events and not the whole log. A view that is not at the row's last event is
folded again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from datetime import UTC, datetime
from threading import Lock
from typing import TYPE_CHECKING, Any

from engine.session.fold.listing import SHAPE, listing
from engine.session.fold.reduce import View, fold

if TYPE_CHECKING:
    from playground.models import Session

KEPT = 128  # views in memory, at least as many as sessions of one engine
COLUMNS = ("seq", "kind", "t", "data")
_views: OrderedDict[str, View] = OrderedDict()
_lock = Lock()  # of _views; a session's view itself belongs to the thread that writes its log


def take(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Fold the next events, {seq, kind, t, data}, into the session's row (in memory; the caller saves it)."""
    if not rows:
        return
    view = _view(session, rows[0]["seq"] - 1)
    for row in rows:
        view.apply(**row)
    session.summary = listing(view)
    session.title = view.title or session.title
    if any(row["kind"] in ("trial.judged", "trial.untimed", "trial.failed") for row in rows):
        session.losses = 0
    if view.end is not None and session.state != session.ENDED:
        session.state, session.ended = session.ENDED, datetime.fromtimestamp(view.end.t or rows[-1]["t"], UTC)


def forget(session_id: str) -> None:
    """Drop the view of a session, because its folded events may differ from the log."""
    with _lock:
        _views.pop(session_id, None)


def _view(session: Session, seq: int) -> View:
    with _lock:
        view = _views.get(session.id)
    if view is None or view.seq != seq:
        view = fold(session.events.order_by("seq").values(*COLUMNS).iterator()) if seq else View()
        if view.seq != seq:
            raise ValueError(f"the log of {session.id} ends at event {view.seq}; its row says {seq}")
    with _lock:
        _views[session.id] = view
        _views.move_to_end(session.id)
        while len(_views) > KEPT:
            _views.popitem(last=False)
    return view


def fold_again(sessions: Any, events: Any) -> int:
    """Fold the logs of rows of an older shape again. Returns their number. `sessions`, `events`: the managers of
    Session and SessionEvent, for a migration those of its own time. A migration must call this whenever SHAPE grows."""
    folded = 0
    for session in sessions.only("id", "summary").iterator():
        if session.summary.get("shape") != SHAPE and session.summary:
            view = fold(events.filter(session_id=session.id).order_by("seq").values(*COLUMNS).iterator())
            sessions.filter(id=session.id).update(summary=listing(view))
            folded += 1
    return folded
