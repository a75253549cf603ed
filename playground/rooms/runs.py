"""Sessions that a seat starts. They count against the seat and the room, and never against the address that the whole
class shares: the room is one account in the queue (Session.origin) and among the work of an engine (Share.room)."""

from __future__ import annotations

from typing import Any

from django.utils.crypto import salted_hmac

from engine.session.spec import SpecFields
from playground import conf
from playground.access import limits, requests, tokens
from playground.access.answers import Refused
from playground.access.sessions import limited
from playground.models import Room, Seat, Session
from playground.rooms import events, log, rules
from playground.rooms.state import RoomState

AT_ONCE = 2  # sessions of a seat that have not ended
STRATEGIES = ("planner", "sweep")  # a model's tokens would be on the account of whoever runs the server
QUEUE_SHARE = 0.75  # of the queue, for the sessions of one room


def origin(code: str) -> str:
    """The account of a room's sessions, as limits.origin is that of an address's."""
    return salted_hmac("playground.room", code, algorithm="sha256").hexdigest()[:16]


def start(address: str, seat: Seat, asked: SpecFields, step: str = "") -> tuple[Session, str]:
    """A new session of a seat, and its control token. Raises Refused."""
    counted = [f"seat {seat.id}"]
    limited(limits.seat_sessions, counted, "sessions of this seat", count=False)
    if asked.strategy not in STRATEGIES:
        error = f"strategy: a workshop's sessions are searched by {' or '.join(STRATEGIES)}."
        raise Refused(422, error, f"Write {STRATEGIES[0]!r}.", field="strategy")
    spec = requests.spec_of(asked)
    token, digest = tokens.new()
    sessions: list[Session] = []

    def decide(room: Room, state: RoomState) -> log.Items:
        rules.must_still_sit(seat)
        rules.must_take_answers(room, state)
        if state.paused:
            raise Refused(409, "The teacher paused the room.", "Wait until it goes on.")
        if step:
            rules.must_be_open(room, state, step)
        _must_have_place(room, seat)
        if spec["trials"] > room.plan["trials"]:
            error = f"trials: a whole number from 1 to {room.plan['trials']} in this room."
            raise Refused(422, error, f"Write for example {room.plan['trials']}.", field="trials")
        limited(limits.seat_sessions, counted, "sessions of this seat")  # a refused request does not count
        session = Session(
            title=spec["title"], spec=spec, device=spec["device"], control_hash=digest, origin=origin(room.code),
            seat=seat,
        )  # fmt: skip
        session.save(force_insert=True)
        sessions.append(session)
        yield events.SessionStarted(session.id, step), seat.number

    log.append(seat.room_id, decide)
    for link in (sessions[0].id, token):
        limits.guesses.right(address, link)
    return sessions[0], token


def _must_have_place(room: Room, seat: Seat) -> None:
    """Raise Refused if the seat or the room has its maximum of sessions, or the queue is full."""
    waiting, places = Session.objects.filter(state=Session.QUEUED), conf.get("UCUTLASS_QUEUE")
    if Session.objects.filter(seat=seat).exclude(state=Session.ENDED).count() >= AT_ONCE:
        raise Refused(429, f"{AT_ONCE} sessions of this seat have not ended.", "Wait for one, or stop it.")
    if waiting.filter(seat__room=room).count() >= max(1, int(QUEUE_SHARE * places)):
        raise Refused(429, "Too many sessions of this room wait.", "Try again when an engine has taken some.")
    if waiting.count() >= places:
        raise Refused(503, "Too many sessions are waiting.", "Try again when some have ended.")


def gaps(codes: list[str]) -> dict[str, dict[int, dict[str, Any]]]:
    """{code: {seat: {session, state, trials, gap, ms, speedup, kind}}}: of each seat the newest session that is not
    stopped, and its best gap of all. `gap`: the best trial's time, `ms`, over the limit; None without one."""
    rows = Session.objects.filter(seat__room__in=codes).order_by("created")
    seen: dict[str, dict[int, dict[str, Any]]] = {code: {} for code in codes}
    for code, number, session_id, state, summary in rows.values_list(
        "seat__room", "seat__number", "id", "state", "summary"
    ):
        best = (summary or {}).get("best") or {}
        row = seen[code].get(number, {})
        gap, earlier = best.get("gap"), row.get("gap")
        better = gap is not None and (earlier is None or gap < earlier)
        seen[code][number] = {
            "session": session_id, "state": state, "trials": (summary or {}).get("trials", 0),
            "gap": gap if better else earlier, "speedup": best.get("speedup") if better else row.get("speedup"),
            "kind": best.get("kind", "") if better else row.get("kind", ""),
            "ms": best.get("ms") if better else row.get("ms"),
        }  # fmt: skip
    return seen
