"""Start a session, find it and give it commands, within the limits: for the API and for agents (playground.mcp)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.http import HttpRequest
from django.urls import reverse

from engine.session.spec import SpecFields
from playground.access import limits, owners, requests, tokens, tries
from playground.access.answers import Refused, too_many
from playground.access.owners import Caller
from playground.live import log
from playground.models import Command, Session, Snapshot


@dataclass(frozen=True)
class Heard:
    """A command that was accepted. `ended`: it ended the session at once; `waits`: "paused" if a try or a profile
    begins only when the session resumes; `number`: of a try, its place among the session's tries, from 1."""

    kind: str
    ended: bool = False
    waits: str = ""
    number: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "ended": self.ended, **({"waits": self.waits} if self.waits else {})}


def limited(limit: limits.Limit, keys: list[str], what: str, *, count: bool = True, calls: int = 1) -> None:
    """Count a call for each key, a long one as `calls`. Raises Refused(429), and then counts it for none."""
    wait = max(limit.wait(key, count=False) for key in keys)
    if wait:
        raise too_many(what, wait)
    if count:
        for key in keys:
            limit.wait(key, calls=calls)


def find(address: str, session_id: str) -> Session:
    """The session of a view link. Raises Refused: 404, or 429 for an address with too many wrong links."""
    rows = Session.objects.filter(id=session_id).select_related("owner")
    session = limits.guesses.look(address, session_id, rows.first)
    if session is None:
        raise Refused(
            404, "There is no such session.", "Check the link; sessions are deleted some weeks after their end."
        )
    return session


def may_start(caller: Caller) -> None:
    """Raise Refused if the caller may start no session now."""
    limited(limits.sessions, caller.keys, "sessions", count=False)
    requests.room_in_queue(caller.origin)


def start(
    caller: Caller, asked: SpecFields, provenance: dict[str, Any] | None = None, fork_of: str = ""
) -> tuple[Session, str]:
    """A new session in the queue, and its control token. `provenance`: what the server knows of it, if it and no person
    chose the candidates; `fork_of`: the session that its text came from. Raises Refused."""
    may_start(caller)  # before the text is read
    if provenance is None:
        requests.by_hand(asked.strategy)
    spec, about = requests.spec_of(asked), provenance or _original_best(caller.address, fork_of)
    token, digest = tokens.new()
    session = Session(
        title=spec["title"], spec=spec, device=spec["device"], control_hash=digest, origin=caller.origin,
        owner=caller.owner, own_key=bool(spec["endpoint"]), provenance=about,
    )  # fmt: skip
    with transaction.atomic():  # on SQLite one at a time, so that parallel requests do not pass the limit
        requests.room_in_queue(caller.origin)
        if session.own_key:
            requests.room_for_key(caller.origin)
        limited(limits.sessions, caller.keys, "sessions")  # a refused request does not count
        session.save(force_insert=True)
    for link in (session.id, token):
        limits.guesses.right(caller.address, link)
    return session, token


def _original_best(address: str, original: str) -> dict[str, Any]:
    """What the page of the original tells as its best when it is forked; {} if that is nothing, or it is deleted."""
    if not original:
        return {}
    try:
        best = find(address, original).summary.get("best")
    except Refused as e:
        if e.status != 404:
            raise
        best = None
    return {"forked": {name: best[name] for name in ("speedup", "baseline")}} if best else {}


def links(request: HttpRequest, session: Session, token: str) -> dict[str, str]:
    """What the starter of a session gets: its id, both links, and the control token."""
    return {
        "id": session.id,
        "view_url": request.build_absolute_uri(reverse("session", args=[session.id])),
        "control_url": request.build_absolute_uri(reverse("control", args=[token])),
        "control_token": token,
    }


def must_control(address: str, session: Session | Snapshot, secret: str) -> None:
    """Raise Refused(403) for a secret that does not control the session, 429 for an address that guesses."""
    owns = bool(secret) and limits.guesses.look(
        address, f"{session.id} {secret}", lambda: owners.controls(session, secret) or None
    )
    if not owns:
        raise Refused(
            403, "This needs the control token of the session.", "Open the control link, or fork the session."
        )


def controlled(request: HttpRequest, session_id: str, secret: str) -> Session:
    """The session, for a request with its control token or with the owner token that it was started with. Raises
    Refused."""
    session = find(limits.address(request), session_id)
    owner = None if secret else owners.bearer(request)
    if owner is None or session.owner_id != owner.id:
        must_control(limits.address(request), session, secret)
    return session


def command(session: Session, kind: str, fields: dict[str, Any], why: dict[str, Any] | None = None) -> Heard:
    """Give a command of the owner, whose right the caller has checked, to the session. `why`: the server's own reason,
    which no owner can send (engine.session.events.Controlled). Raises Refused."""
    limited(limits.commands, [session.id], "commands", count=False)
    data = requests.command_of(session, kind, fields)
    if kind == "try":
        data = tries.try_of(session, data)
    data = {**data, **(why or {})}
    limited(limits.commands, [session.id], "commands")
    if kind == "stop" and log.end_unclaimed(session.id, "Stopped before an engine took it."):
        return Heard(kind, ended=True)
    waits = "paused" if kind in ("try", "profile") and paused(session) else ""
    with transaction.atomic():
        Session.objects.select_for_update().get(id=session.id)  # commands of one session get their ids in order
        row = Command.objects.create(session=session, kind=kind, data=data)
        number = session.commands.filter(kind="try", id__lte=row.id).count() if kind == "try" else None
    return Heard(kind, waits=waits, number=number)


def paused(session: Session) -> bool:
    """Return True if the session is paused when it has obeyed the commands that wait for it."""
    last = session.commands.filter(kind__in=("pause", "resume"), handled=None).last()
    return last.kind == "pause" if last is not None else bool(session.summary.get("paused"))
