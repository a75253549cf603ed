"""The profile of a trial for a reader: as the session's log has it, or of a session that ended, made from its log."""

from __future__ import annotations

from typing import Any

from engine.session.fold import profile as recorded
from engine.session.fold.readers import objects
from engine.session.fold.reduce import View
from engine.session.fold.view import Trial
from playground.access.answers import Refused
from playground.live import log
from playground.models import Session


def of(session: Session, number: int) -> dict[str, Any]:
    """{trial, state, source, text, t, refusal, reason}, as engine.session.fold.view.Profile has them, with the text in
    full; `t` of a profile that is made from the log is the session's end. Raises Refused for an unknown trial, one
    without a time, and one of a session that runs whose profile nobody asked for."""
    view = log.view(session.id)
    trial = view.trials.get(number)
    if trial is None:
        raise Refused(404, f"This session has no trial {number}.", "Its trials are on its page.")
    known = trial.profile
    over = session.state == Session.ENDED
    if known is not None and (known.state == "ready" or not over):
        row = session.blobs.filter(sha256=known.text).first() if known.text else None
        return _answer(trial, known.state, known.source, row.text if row else "", known.t, known.refusal, known.reason)
    if trial.ended and not trial.timed:
        raise Refused(409, recorded.NO_TIME.format(number), "Choose a trial with a time.")
    if not over:
        error = f"Nobody asked for the profile of trial {number} yet."
        raise Refused(409, error, "The owner of the session asks for it with the command `profile`.")
    if not trial.timed:
        raise Refused(409, f"Trial {number} did not end.", "Choose a trial with a time.")
    return _answer(trial, "ready", "model", _from_log(view, trial), view.last_t)


def _answer(
    trial: Trial, state: str, source: str, text: str, t: float | None, refusal: str = "", reason: str = ""
) -> dict[str, Any]:
    return {
        "trial": trial.number, "state": state, "source": source, "text": text, "t": t, "refusal": refusal,
        "reason": reason,
    }  # fmt: skip


def _from_log(view: View, trial: Trial) -> str:
    """The compiler's resources and the model's times, as an engine would put them into words."""
    j, resources = trial.judged, objects((trial.compiled or {}).get("resources"))
    limit = view.bounds.get(trial.roof or j.cls)
    return recorded.in_words(
        recorded.facts(trial.number, j.cls, j.ms, j.kind, limit, j.gap, trial.stages, resources)
    )  # fmt: skip
