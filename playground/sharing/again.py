"""Run the best candidates of an ended session again, in a new session on this server, and compare the two.

The new session is one like any other, with the strategy `again` (engine.strategies.again). Its row keeps what the
original says of each trial, so the comparison outlives the original:

    provenance = {"again": {"of": the original's id, "title": its title, "recorded": {trial: facts}}}

A session that runs them at other sizes of the module says only where they come from: {"resized": {"of", "title"}}.

If the original is a snapshot, the run is attached to it when the new session ends, in the transaction of its last
event: the server ran it, so it needs no right.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterator
from typing import Any

from django.db import transaction
from django.utils import timezone

from engine.record import NOT_REPRODUCED, REPRODUCED, BadRecord, comparison
from engine.session import events
from engine.session.spec import UNTITLED, BadSpec, SessionSpec, SpecFields, strategies
from playground.access import sessions
from playground.access.answers import Refused
from playground.access.owners import Caller
from playground.models import Session, SessionEvent, Snapshot
from playground.sharing import snapshots

logger = logging.getLogger(__name__)
STEPS = ("trial.proposed", "trial.judged", "trial.measured", "trial.failed", "trial.untimed", "session.ended")
NO_TRIAL = "No trial of this session has a time, so there is nothing to run again."
WITHHELD = "Its owner shares the results without the source, so there is nothing to run again."


def offered(session: Session) -> bool:
    """Return True if the session's page offers to run it again, now or once it has ended."""
    if not session.spec.get("source"):
        return False
    return session.state != Session.ENDED or bool(session.summary.get("fastest") or session.summary.get("best"))


def start(caller: Caller, original: Session, resized: str = "", sizes: str = "") -> tuple[Session, str]:
    """A new session that runs the best trials of an ended one, and its control token. `resized`: the module's text with
    other sizes, to which the programs are carried; nothing is then compared with the original; `sizes`: they in words,
    such as "N = 4096". Raises Refused."""
    sessions.may_start(caller)  # before the log is read
    if not original.spec.get("source"):
        raise Refused(409, WITHHELD, "Ask its owner for a snapshot with the source.")
    record = snapshots.record_of(original)
    trials = comparison.best_trials(record)
    if not trials:
        raise Refused(409, NO_TRIAL, "Fork it to search again.")
    try:
        fields = comparison.spec_of(record, trials, "auto") | {"title": original.title}
        if resized:
            fields |= {"source": resized, "title": _resized_title(original, sizes)}
            fields["options"] |= {"carry": True}
        fields = SessionSpec(**fields).to_dict()
    except (BadRecord, BadSpec) as e:
        raise Refused(409, f"This session cannot run again: {e}.", "Fork it to search again.") from None
    if resized:
        return sessions.start(caller, SpecFields(**fields), {"resized": {"of": original.id, "title": original.title}})
    recorded = {str(trial): comparison.recorded_of(record, trial) for trial in trials}
    about = {"of": original.id, "title": original.title, "recorded": recorded}
    return sessions.start(caller, SpecFields(**fields), {"again": about})


def _resized_title(original: Session, sizes: str) -> str:
    """The original's name with the sizes. A title that says what was computed has the original's sizes: the new session
    gets its own once it is traced."""
    traced = original.events.filter(kind=events.Traced.KIND).values_list("data", flat=True)
    if any(data.get("title") == original.title for data in traced):
        return UNTITLED
    return f"{original.title[:100]}, {sizes}" if sizes else original.title


def forked(spec: dict[str, Any]) -> dict[str, Any]:
    """A request for the form of a new session, without its source. A strategy that no person may choose is left out."""
    usual = any(one["name"] == spec.get("strategy") for one in strategies())
    without = ("source",) if usual else ("source", "strategy", "options", "trials")
    return {name: value for name, value in spec.items() if name not in without}


def runs_of(session: Session) -> dict[str, Any] | None:
    """{of, title, trials} of a session that runs another's candidates again, None for others. `of` is "" if the
    original is deleted."""
    about = session.provenance.get("again")
    if about is None:
        return None
    there = Session.objects.filter(id=about["of"]).exists()
    trials = [int(trial) for trial in about["recorded"]]
    return {"of": about["of"] if there else "", "title": about["title"], "trials": trials}


def compared(session: Session, end: events.SessionEnded | None = None) -> dict[str, Any]:
    """What the session says of the original's trials: {when, device, verdict, trials} (engine.record.comparison.plain).
    `end`: its last event, if the log does not have it yet."""
    recorded = {int(trial): facts for trial, facts in session.provenance["again"]["recorded"].items()}
    rows = list(SessionEvent.objects.filter(session=session, kind__in=STEPS).order_by("seq").values("kind", "data"))
    if end is not None:
        rows.append({"kind": end.KIND, "data": events.encode(end)})
    outcomes = comparison.outcomes_of(recorded, rows)
    device = next((o.again["device"] for o in outcomes if o.again.get("device")), session.device)
    return comparison.plain(outcomes, device, (session.ended or timezone.now()).isoformat(timespec="seconds"))


@contextlib.contextmanager
def attached(session: Session, event: events.Event) -> Iterator[None]:
    """Attach the run to its original with the event that ends it, both or neither: the caller appends the event in this
    context. A session that was stopped says nothing of its original."""
    done = isinstance(event, events.SessionEnded) and event.state == "done"
    if not done or "again" not in session.provenance:
        yield
        return
    with transaction.atomic():
        _attach(session, event)
        yield


def _attach(session: Session, end: events.SessionEnded) -> None:
    snapshot = Snapshot.objects.filter(session_id=session.provenance["again"]["of"]).first()
    if snapshot is None:
        return
    try:
        run = compared(session, end)
        if _says_something(run, snapshot):
            snapshots.attach(snapshot, run | {"session": session.id})
    except (Refused, KeyError, TypeError, ValueError):  # the session ends all the same
        logger.exception("the run of session %s was not attached", session.id)


def _says_something(run: dict[str, Any], snapshot: Snapshot) -> bool:
    """Return False for one more run that confirms and refutes nothing: strangers would fill the places of those that
    do."""
    known = {(r.get("verdict"), r.get("device")) for r in snapshot.record["reproductions"]}
    return run["verdict"] in (REPRODUCED, NOT_REPRODUCED) or (run["verdict"], run["device"]) not in known
