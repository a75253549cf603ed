"""The only writer of the event log, and its readers.

A session has one writer: the engine that holds its lease. The row decides who holds it, not the clock: a claim writes
the engine's name and increments `claims`, and every later write checks both. The clock only decides when another engine
may claim. So an engine that slept through its lease may continue if nobody took the session, and an engine that was
replaced can write nothing more, however late it wakes.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction
from django.db.models import F, Max, Q, QuerySet
from django.utils import timezone

from engine.session import events
from engine.session.fold.reduce import View, fold
from playground import conf, summary
from playground.live import turns
from playground.models import Blob, Command, Session, SessionEvent

# Engines lost in a row at one step of a session; an engine has one such session at a time, to find which is to blame.
SUSPECT = 3
BESIDE = tuple(
    e.KIND for e in (events.Resumed, events.Progress, events.Controlled, events.KeyWanted, events.KeyReceived)
)
MAX_EVENT_BYTES = 1 << 19  # anything larger is a text, and texts are blobs


class LeaseLost(Exception):
    """Another engine holds this session now (or it was deleted). Stop, and write nothing more."""


class UnreadableLog(Exception):
    """A log that this version cannot continue. The message says which event and why, for the session's end reason."""


@dataclass(frozen=True)
class Lease:
    """The right to append to one session: this engine, in its `claim`-th claim."""

    session_id: str
    engine_id: str
    claim: int
    taken_over: bool = False  # the previous engine was lost
    suspect: bool = False  # several engines were lost under it
    own_key: bool = False  # it waits for a visitor's key first

    def query(self):
        return Session.objects.filter(
            id=self.session_id, engine_id=self.engine_id, claims=self.claim, state=Session.RUNNING
        )


def lease_end():
    return timezone.now() + _length()


def _length() -> timedelta:
    return timedelta(seconds=conf.get("UCUTLASS_LEASE_SECONDS"))


def waiting(serves: str) -> QuerySet[Session]:
    """The sessions that an engine which serves this device may claim; playground.live.turns orders them.

    A session waits in the queue, or its engine fell silent: its lease is over, or ends so far in the future that the
    clock must have jumped back since it was written (clocks of two machines may differ by a lease). Every engine serves
    `auto` and `modelled:NAME` (a prediction needs no GPU); only an engine with a GPU serves `cuda`.
    """
    now = timezone.now()
    over = Q(lease_until__lt=now) | Q(lease_until__gt=now + 2 * _length())
    free = Session.objects.filter(Q(state=Session.QUEUED) | Q(state=Session.RUNNING) & over)
    may = free if serves == "cuda" else free.exclude(device="cuda")
    return may.only("id", "state", "claims", "last_seq", "origin", "created", "losses", "lost_at", "own_key")


def claim(
    engine_id: str, serves: str = "modelled:h200", *, suspects: bool = True, own_keys: bool = True
) -> Lease | None:
    """Take the next session in turn. Returns None if there is none. `suspects`: also one under which several engines
    were lost (SUSPECT); `own_keys`: also one that waits for a visitor's key.

    An engine asks several times a second, so it looks without a transaction: on SQLite each transaction would take the
    lock that every writer needs. The update is conditional, so one of several engines gets the session.
    """
    free = waiting(serves) if suspects else waiting(serves).filter(losses__lt=SUSPECT)
    free = free if own_keys else free.filter(own_key=False)
    for chosen in turns.in_turn(free):
        losses, step = chosen.losses, chosen.lost_at
        if chosen.state == Session.RUNNING:  # its engine was lost
            step = _step(chosen.id)
            if not _rested(chosen.id):
                losses = losses + 1 if step == chosen.lost_at else 1
        with transaction.atomic():
            if (
                waiting(serves)
                .filter(id=chosen.id, claims=chosen.claims)
                .update(
                    state=Session.RUNNING,
                    engine_id=engine_id,
                    lease_until=lease_end(),
                    claims=F("claims") + 1,
                    losses=losses,
                    lost_at=step,
                )
            ):
                turns.served(chosen.origin)
                begun, suspect = chosen.last_seq > 0, losses >= SUSPECT
                return Lease(chosen.id, engine_id, chosen.claims + 1, begun, suspect, chosen.own_key)
    return None


def _step(session_id: str) -> int:
    """How far the session's work is: the number of its last event that neither its owner nor a new engine causes."""
    of_the_work = SessionEvent.objects.filter(session_id=session_id).exclude(kind__in=BESIDE)
    return of_the_work.aggregate(last=Max("seq"))["last"] or 0


def _rested(session_id: str) -> bool:
    """Return True if nothing of the session ran under the engine that was lost, by its log: it was paused when it was
    taken, or waited for an agent or a key and heard nothing."""
    logged = SessionEvent.objects.filter(session_id=session_id).order_by("-seq")
    words = logged.filter(kind=events.Controlled.KIND)
    last = logged.exclude(kind=events.Controlled.KIND).first()
    pause = words.filter(data__action__in=("pause", "resume")).first()
    if last is None:
        return False
    if pause is not None and pause.data["action"] == "pause":
        return last.kind == events.Resumed.KIND and pause.seq < last.seq
    steps = logged.exclude(kind__in=(events.Controlled.KIND, events.Resumed.KIND))
    asked = steps.exclude(kind=events.Progress.KIND, data__step="wait").first()
    waits = asked is not None and (asked.kind == events.KeyWanted.KIND or asked.data.get("step") == "receive")
    return waits and not words.filter(seq__gt=asked.seq, data__action__in=("try", "profile", "resume")).exists()


def not_lost(lease: Lease) -> None:
    """The engine whose lease was over lives: it slept, and the session is not to blame."""
    taken_over = Session.objects.filter(id=lease.session_id, claims=lease.claim + 1, losses__gt=0)
    taken_over.update(losses=F("losses") - 1)


def end_unclaimed(session_id: str, reason: str) -> bool:
    """End a session that no engine has started. False if an engine has it (then the engine must be told)."""
    ended = Session.objects.filter(id=session_id, state=Session.QUEUED, last_seq=0).update(
        state=Session.RUNNING, engine_id="web", lease_until=lease_end(), claims=F("claims") + 1
    )
    if not ended:
        return False
    lease = Lease(session_id, "web", Session.objects.get(id=session_id).claims)
    append(lease, [(events.SessionEnded("stopped", reason, best={}, trials=0, seconds=0.0, code="stopped"), {})])
    return True


def renew(leases: Sequence[Lease]) -> list[Lease]:
    """Extend the leases. Returns those that could not be extended: the session ended, or another engine has it."""
    return [lease for lease in leases if not lease.query().update(lease_until=lease_end())]


def release(lease: Lease) -> None:
    """Return the session to the queue, at its front (it is the oldest), for another engine."""
    lease.query().update(state=Session.QUEUED, engine_id="", lease_until=None)


def append(
    lease: Lease,
    items: Sequence[tuple[events.Event, Mapping[str, str]]],
    t: float | None = None,
    handled: Sequence[int] = (),
) -> int:
    """Append (event, {blob name: text}) pairs with the next seq each, all or none. Returns the last seq.

    `t`: seconds since the epoch at the engine, now if None. `handled`: ids of the commands that the engine took before
    these events; marked in the same transaction. Raises LeaseLost if the session no longer has this lease, ValueError
    if a blob does not match its name or an event is too large for the socket, UnreadableLog if a newer version wrote
    the log and the event is not its end.
    """
    try:
        with transaction.atomic():
            # The row lock keeps seq without gaps: the next writer waits here (SQLite locked at BEGIN).
            session = lease.query().select_for_update().first()
            if session is None:
                raise LeaseLost(lease.session_id)
            if not all(isinstance(e, events.SessionEnded) for e, _ in items):
                check_version(session)
            write(session, [(e, b, time.time() if t is None else t) for e, b in items])
            if handled:
                Command.objects.filter(id__in=handled).update(handled=timezone.now())
            fields = ["title", "state", "ended", "last_seq", "log_version", "summary", "losses"]
            if session.state == Session.ENDED:
                for end in (e for e, _ in items if isinstance(e, events.SessionEnded)):
                    turns.ended(session.origin, end)
                session.origin = ""  # it waits in no queue any more
                fields.append("origin")
            session.save(update_fields=fields)
            return session.last_seq
    except BaseException:
        summary.forget(lease.session_id)  # a rolled-back event must not stay in the folded view
        raise


def write(session: Session, rows: Iterable[tuple[events.Event, Mapping[str, str], float]]) -> None:
    """Insert rows after `session.last_seq` and fold them into the row, which the caller has locked and saves."""
    inserted, texts = [], {}
    session.log_version = max(session.log_version, events.VERSION)
    for event, blobs, t in rows:
        session.last_seq += 1
        data = events.encode(event)
        if (size := len(json.dumps(data, ensure_ascii=False).encode())) > MAX_EVENT_BYTES:
            raise ValueError(f"{event.KIND} of {size >> 10} KiB is over the {MAX_EVENT_BYTES >> 10} KiB of an event")
        inserted.append(SessionEvent(session=session, seq=session.last_seq, kind=event.KIND, t=t, data=data))
        texts.update(blobs)
    summary.take(session, [row.row() for row in inserted])
    store_blobs(session, texts)
    SessionEvent.objects.bulk_create(inserted)


def store_blobs(session: Session, texts: Mapping[str, str]) -> None:
    """Store new texts, and note that this session uses them."""
    if not texts:
        return
    for name, text in texts.items():
        if events.blob_name(text) != name:
            raise ValueError(f"the blob {name[:12]}… does not hold the text it is named after")
    # Locked, where the database locks rows, in one order: retention must not delete a text that we are about to use.
    stored = Blob.objects.select_for_update().filter(sha256__in=texts).order_by("sha256")
    known = set(stored.values_list("sha256", flat=True))
    fresh = [Blob.pack(name, text) for name, text in texts.items() if name not in known]
    Blob.objects.bulk_create(fresh, ignore_conflicts=True)
    session.blobs.add(*texts)


def check_version(session: Session) -> None:
    """Raise UnreadableLog for a log that a newer version wrote."""
    if session.log_version > events.VERSION:
        raise UnreadableLog(
            f"This session's log has version {session.log_version}, and this engine reads logs up to version "
            f"{events.VERSION}. Update the engine, then fork the session to run it again."
        )


def history(session_id: str) -> list[tuple[int, events.Event]]:
    """The typed log so far, for an engine that resumes a session. Raises UnreadableLog."""
    rows = SessionEvent.objects.filter(session_id=session_id).order_by("seq").values_list("seq", "kind", "data")
    typed: list[tuple[int, events.Event]] = []
    try:
        for seq, kind, data in rows.iterator():
            typed.append((seq, events.decode(kind, data)))
    except ValueError as e:
        raise UnreadableLog(
            f"Event {len(typed) + 1} of this session's log cannot be read: {str(e)[:200]}. Fork the session to run it "
            "again."
        ) from None
    return typed


def abandon(lease: Lease, reason: str) -> None:
    """End a session that `append` cannot end, because its summary cannot be folded. Does nothing if the lease is lost.
    The contents of the summary stay."""
    end = events.SessionEnded("failed", reason, {}, 0, 0.0, "unreadable_session")
    with transaction.atomic():
        stored = lease.query().select_for_update().values("summary").first()
        if stored is None:
            return
        row = stored["summary"] if isinstance(stored["summary"], dict) else {}
        rows = SessionEvent.objects.filter(session_id=lease.session_id)
        seq = (rows.aggregate(last=Max("seq"))["last"] or 0) + 1
        rows.bulk_create(
            [SessionEvent(session_id=lease.session_id, seq=seq, kind=end.KIND, t=time.time(), data=events.encode(end))]
        )
        row["end"] = {"state": end.state, "reason": reason, "seconds": 0.0, "code": end.code, "line": None}
        lease.query().update(state=Session.ENDED, ended=timezone.now(), last_seq=seq, summary=row, origin="")


def view(session_id: str, up_to: int | None = None) -> View:
    """Fold the log, or its beginning up to event `up_to`. Never fails: data of another version becomes a warning."""
    rows = SessionEvent.objects.filter(session_id=session_id).order_by("seq")
    rows = rows if up_to is None else rows.filter(seq__lte=up_to)
    return fold(rows.values(*summary.COLUMNS).iterator())


def began(session_id: str) -> float | None:
    """The time of the first event of the log, in seconds since the epoch; None before it."""
    return SessionEvent.objects.filter(session_id=session_id, seq=1).values_list("t", flat=True).first()


def after(session_id: str, seq: int, limit: int) -> list[SessionEvent]:
    """At most `limit` events that come after `seq`."""
    return list(SessionEvent.objects.filter(session_id=session_id, seq__gt=seq).order_by("seq")[:limit])


def stream(session_id: str, seq: int, limit: int) -> Iterator[dict[str, Any]]:
    """At most `limit` events after `seq` in the form for viewers, one by one."""
    rows = SessionEvent.objects.filter(session_id=session_id, seq__gt=seq).order_by("seq")
    yield from rows.values("seq", "kind", "t", "data")[:limit].iterator(64)
