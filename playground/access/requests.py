"""Requests of visitors, checked before they become rows: new sessions and the owner's commands."""

from __future__ import annotations

import re
from typing import Any

from engine.llm import settings as models
from engine.session.fold.profile import NO_TIME
from engine.session.spec import MAX_TRIALS, UNTITLED, BadSpec, SessionSpec, SpecFields, strategies
from engine.session.titles import LONGEST, first_sentence, opening_text, shown
from playground import conf
from playground.access.answers import Refused
from playground.live import log, turns
from playground.models import Session

COMMANDS = ("pause", "resume", "stop", "budget", "try", "profile")
MOST_OWN_KEYS = 5  # sessions of one address with an endpoint of their own that have not ended

LESS = "Paste only the module to optimise, without data or generated code."


def limit_text(text: str, what: str = "The source", fix: str = LESS) -> None:
    """Raise Refused(413) for a text over UCUTLASS_SOURCE_KIB."""
    limit, size = conf.get("UCUTLASS_SOURCE_KIB"), len(text.encode())
    if size > limit << 10:
        raise Refused(
            413,
            f"{what} is {size / 1024:.0f} KiB; the limit is {limit} KiB.",
            fix,
        )


def room_in_queue(origin: str) -> None:
    """Raise Refused if the queue is full, or if this origin (limits.origin) has its maximum of places, of which each of
    its sessions that only took time (turns.wastes) holds one."""
    waiting, places = Session.objects.filter(state=Session.QUEUED), conf.get("UCUTLASS_QUEUE")
    if waiting.count() >= places:
        raise Refused(503, "Too many sessions are waiting.", "Try again when some have ended.")
    wastes = turns.wastes(origin)
    most = max(1, min(conf.get("UCUTLASS_QUEUE_PER_ADDRESS"), places - 1) - wastes)
    if waiting.filter(origin=origin).count() >= most:
        error = f"{most} session{'s' if most > 1 else ''} from this address wait{'s' if most == 1 else ''} already."
        if wastes:
            error += f" {wastes} of its places are taken for an hour by sessions that ran long without a trial."
        raise Refused(429, error, "Try again when an engine has taken one, or stop one.")


def spec_of(asked: SpecFields) -> dict[str, Any]:
    """The spec to store, within this server's limits; `device` as requested (the claiming engine resolves `auto`)."""
    limit_text(asked.source)
    title = " ".join(shown(asked.title).split()) or name_of(asked.source, asked.source_kind)
    return _checked({**asked.to_dict(), "title": title}).to_dict()


def by_hand(strategy: str) -> None:
    """Raise Refused(422) for a strategy that no person may choose."""
    chosen = [one["name"] for one in strategies()]
    if strategy not in chosen:
        error = f"strategy: {strategy!r} begins with the button on the page of an ended session."
        raise Refused(422, error, f"Write one of {', '.join(chosen)}.", field="strategy")


def endpoints() -> tuple[str, ...]:
    """The endpoints that a visitor may use with an own key (UCUTLASS_ENDPOINTS). Empty if the setting is not valid:
    the engine says so when it starts."""
    try:
        listed = models.load({"UCUTLASS_ENDPOINTS": conf.get("UCUTLASS_ENDPOINTS")}).endpoints
    except models.BadSettings:
        return ()
    return tuple(address for address in listed if address.startswith("https://"))


def room_for_key(origin: str) -> None:
    """Raise Refused if this origin has its maximum of sessions with an endpoint of their own."""
    own = Session.objects.filter(origin=origin, own_key=True).exclude(state=Session.ENDED).count()
    if own >= MOST_OWN_KEYS:
        error = f"{own} sessions from this address with an own endpoint run or wait for their key already."
        raise Refused(429, error, "Type their keys, or stop one.")


def invalid(body: bytes) -> Refused | None:
    """Why the body of a new session is not a spec; None if it is not even an object."""
    try:
        SessionSpec.from_json(body.decode("utf-8", "replace"))
    except BadSpec as e:
        return None if e.field == "spec" else refusal_of(e)
    return None


def most_trials() -> int:
    """The largest budget of trials that a session may ask for on this server."""
    return min(MAX_TRIALS, conf.get("UCUTLASS_MAX_TRIALS"))


def refusal_of(wrong: BadSpec) -> Refused:
    """The refusal of a wrong field: the values that this server allows, and a valid value."""
    message, way_out = wrong.message, wrong.fix
    if wrong.field == "trials":
        most = most_trials()
        message, way_out = f"a whole number from 1 to {most}", f"Write for example 12; this server allows {most}."
    return Refused(422, f"{wrong.field}: {message.removesuffix('.')}.", way_out, field=wrong.field)


def _checked(fields: dict[str, Any]) -> SessionSpec:
    """A spec within this server's limits. Raises Refused."""
    try:
        spec = SessionSpec(**fields)
    except BadSpec as e:
        raise refusal_of(e) from None
    if spec.trials > most_trials():
        raise refusal_of(BadSpec("trials", ""))
    if spec.endpoint and spec.endpoint not in endpoints():
        listed = ", ".join(endpoints())
        fix = f"This server allows {listed}." if listed else "This server allows none: leave it out."
        raise Refused(422, "endpoint: this address is not allowed here.", fix, field="endpoint")
    return spec


def title_of(source: str, kind: str) -> str:
    """What a text of ours says that it is: the whole first sentence of its docstring or comment, else its name. A
    sentence that is too long is left out."""
    return first_sentence(opening_text(source)) or name_of(source, kind)


def name_of(source: str, kind: str) -> str:
    """The title of a session without one: the name of its program; a module has one once it is traced, which says what
    it computes. A visitor's docstring gives none, because its sizes stay when those of the text are edited."""
    if kind == "module":
        return UNTITLED
    program = re.search(r"^[ \t]*program\s+(\w+)", source, re.MULTILINE)
    return program[1][:LONGEST] if program else "A μCUTLASS program"


def command_of(session: Session, kind: str, data: dict[str, Any]) -> dict[str, Any]:
    """The command's checked data; playground.access.tries checks that of a `try`. Raises Refused with the fix."""
    if kind not in COMMANDS:
        raise Refused(422, f"{kind!r} is not a command.", f"Send one of {', '.join(COMMANDS)}.")
    if session.state == Session.ENDED:
        there = f"GET /api/sessions/{session.id}/trials/NUMBER/profile reads the profile of a trial."
        raise Refused(409, "This session has ended.", there if kind == "profile" else "Fork it to continue from here.")
    if kind == "budget":
        return _budget(session, data)
    if kind == "profile":
        return _profile(session, data)
    if kind == "try" and session.seat is not None:
        most = session.seat.room.plan["trials"]
        if session.commands.filter(kind="try").count() >= most:
            error = f"This session has {most} candidates of yours, as many as its room allows."
            raise Refused(409, error, "Start another session in the room.")
    return data if kind == "try" else {}


def _profile(session: Session, data: dict[str, Any]) -> dict[str, Any]:
    """{trial} of a trial that runs or has a time. Raises Refused."""
    number = data.get("trial")
    if set(data) != {"trial"} or isinstance(number, bool) or not isinstance(number, int):
        error = "A profile has one field, trial: the number of a trial."
        raise Refused(422, error, 'Send for example {"data": {"trial": 3}}.', field="trial")
    trial = log.view(session.id).trials.get(number)
    if trial is None:
        raise Refused(404, f"This session has no trial {number}.", "Its trials are on its page.", field="trial")
    if trial.ended and not trial.timed:
        raise Refused(409, NO_TIME.format(number), "Choose a trial with a time.", field="trial")
    if trial.profile is not None and trial.profile.state == "asked":
        raise Refused(409, f"The profile of trial {number} is being made.", "It appears on the page of the session.")
    return {"trial": number}


def _budget(session: Session, data: dict[str, Any]) -> dict[str, Any]:
    allowed = ("trials", "eps", "window")
    if not data or set(data) - set(allowed):
        raise Refused(422, "A budget has trials, eps and window.", 'Send for example {"data": {"trials": 40}}.')
    spec = _checked({"title": "t", "source": "x", **data})
    if session.seat is not None and "trials" in data and spec.trials > session.seat.room.plan["trials"]:
        most = session.seat.room.plan["trials"]
        raise Refused(422, f"trials: a whole number from 1 to {most} in its room.", f"Write {most}.", field="trials")
    return dict(data)
