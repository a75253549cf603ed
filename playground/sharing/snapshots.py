"""Snapshots: immutable copies of finished sessions, named by their content, kept until their owner deletes them.

A snapshot is a row like a recording, so its page, its figures, its socket, fork and export are those of any session. It
has no control token and no owner, so nobody can command it. The right to delete it is that of the original.
"""

from __future__ import annotations

import json
from typing import Any

from django.db import IntegrityError, transaction

from engine import record as records
from engine.record.shared import WITHOUT, shared
from engine.session import events
from engine.session.titles import shown
from playground import summary
from playground.access.answers import Refused
from playground.live import log
from playground.models import Session, Snapshot
from playground.sharing import notes

MOST = 50  # snapshots of one session
MOST_BYTES = 32 << 20  # of a record
MOST_RUNS, LONGEST_RUN = 100, 64 << 10  # attached to a snapshot, and bytes of one


def record_of(session: Session) -> dict[str, Any]:
    """The record of a finished session, with everything that its link shows. Raises Refused."""
    snapshot = Snapshot.objects.filter(session=session).first()
    rows, texts = _log(session)
    if snapshot is not None:
        built = snapshot.record | {"events": rows}
        return built | {"texts": {name: texts[name] for name in sorted(texts)}}
    return _built(rows, texts, notes.of(session), records.ALL, "")


def take(session: Session, *, source: bool, transcript: bool) -> Snapshot:
    """A snapshot of a finished session, the one that exists if nothing changed since. Raises Refused."""
    rows, texts = _log(session)
    try:
        rows, texts, turns = shared(rows, texts, source=source, transcript=transcript)
    except (KeyError, ValueError, TypeError) as e:
        raise _unreadable(e) from None
    shares = {"source": source, "transcript": transcript and source}
    record = _built(rows, texts, notes.of(session) if source else {}, shares, turns)
    name = records.link_of(record["id"])
    if (known := Snapshot.objects.filter(session_id=name).select_related("session").first()) is not None:
        return known
    if Snapshot.objects.filter(of=session.id).count() >= MOST:
        raise Refused(409, f"There are {MOST} snapshots of this session already.", "Delete one of them.")
    fork = {name: value for name, value in session.provenance.items() if name == "forked"}
    copy = Session(
        id=name, title=session.title if source else WITHOUT, state=Session.RUNNING,
        spec=session.spec if source else _without_text(session.spec), device=session.device,
        created=session.created, provenance={"snapshot": True, "shared": shares, "record": record["id"], **fork},
    )  # fmt: skip
    summary_ = {k: v for k, v in record.items() if k not in ("events", "texts")}
    try:
        with transaction.atomic():
            copy.save(force_insert=True)
            log.write(copy, [(events.decode(r["kind"], r["data"]), {}, r["t"]) for r in rows])
            log.store_blobs(copy, texts)
            copy.save()
            notes.copy(session, copy) if source else None
            return Snapshot.objects.create(
                session=copy, of=session.id, control_hash=session.control_hash, owner=session.owner, record=summary_
            )
    except IntegrityError:  # another request made the same one
        return Snapshot.objects.select_related("session").get(session_id=name)
    finally:
        summary.forget(name)


def attach(snapshot: Snapshot, run: dict[str, Any]) -> tuple[int, int]:
    """Add a run of `engine reproduce`. Returns how many runs reproduced it, and how many could. Raises Refused."""
    if len(json.dumps(run)) > LONGEST_RUN:
        raise Refused(413, f"The run is over {LONGEST_RUN >> 10} KiB.", "Send what `engine reproduce --json` wrote.")
    run = run | {name: shown(run[name]) for name in ("when", "device")}
    with transaction.atomic():
        row = Snapshot.objects.select_for_update().get(session_id=snapshot.session_id)
        runs = row.record["reproductions"]
        if len(runs) >= MOST_RUNS:
            raise Refused(409, f"{MOST_RUNS} runs are attached already.", "They are enough to show.")
        row.record = row.record | {"reproductions": [*runs, run]}
        row.save(update_fields=["record"])
    return records.counted(row.record)


def runs_of(session: Session) -> tuple[int, int]:
    """(runs that reproduced a snapshot, runs that could have); (0, 0) for a session that is none."""
    return records.counted({"reproductions": _attached(session)})


def runs_listed(session: Session) -> list[dict[str, Any]]:
    """{when, device, verdict, trials: a text each, session: the id of one that is here or ""} of each attached run, the
    newest first. A run that was sent may hold anything; what cannot be read is left out."""
    runs = _attached(session)
    named = [name for run in runs if isinstance(name := run.get("session"), str)]
    here = set(Session.objects.filter(id__in=named).values_list("id", flat=True)) if named else set()
    return [
        {"when": str(run["when"])[:10], "device": run["device"], "verdict": run["verdict"],
         "trials": [line for trial in run["trials"] if (line := _trial(trial))],
         "session": run.get("session") if run.get("session") in here else ""}
        for run in reversed(runs)
    ]  # fmt: skip


def _attached(session: Session) -> list[dict[str, Any]]:
    """The runs of a snapshot; none for a session that is no snapshot."""
    snapshot = Snapshot.objects.filter(session=session).first() if session.provenance.get("snapshot") else None
    return snapshot.record["reproductions"] if snapshot else []


def _trial(outcome: dict[str, Any]) -> str:
    """Such as "3: 2.41× (2.38×)", again and recorded; "" without both ratios."""
    try:
        ratios = [float(outcome[name]["ratio"]) for name in ("again", "recorded")]
        return f"{int(outcome['trial'])}: {ratios[0]:.3g}× ({ratios[1]:.3g}×)"
    except (KeyError, TypeError, ValueError):
        return ""


def _without_text(spec: dict[str, Any]) -> dict[str, Any]:
    """A request without what its owner wrote. An endpoint and a model of a visitor's own are not shared either."""
    names = ("source_kind", "strategy", "device", "classes", "trials", "eps", "window", "algebraic")
    return {"title": "", "source": "", **{name: spec[name] for name in names if name in spec}}


def _log(session: Session) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """(the events, the texts) of a finished session. Raises Refused for one that still runs."""
    if session.state != Session.ENDED:
        raise Refused(
            409, "This session has not ended.", "Stop it or wait for its end; then its results do not change any more."
        )
    rows = list(log.stream(session.id, 0, 1 << 30))
    return rows, {blob.sha256: blob.text for blob in session.blobs.iterator(20)}


def _built(rows: list, texts: dict, by_trial: dict[int, str], shares: dict[str, bool], turns: str) -> dict[str, Any]:
    try:
        record = records.build(rows, texts, by_trial, shares, turns)
    except (KeyError, TypeError, AttributeError, ValueError) as e:
        raise _unreadable(e) from None
    if sum(map(len, record["texts"].values())) > MOST_BYTES:
        raise Refused(413, f"The record is over {MOST_BYTES >> 20} MiB.", "Share the results without the source.")
    return record


def _unreadable(e: Exception) -> Refused:
    return Refused(409, f"This session has no record: its log cannot be read ({e}).", "Fork it to run it again.")
