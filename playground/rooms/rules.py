"""Who may do what in a room, and what it does: every action of a teacher or a seat becomes an event, or is refused."""

from __future__ import annotations

import hmac
import html
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models.fields.json import KT
from django.utils import timezone

from playground.access import limits, tokens
from playground.access.answers import Refused
from playground.access.sessions import limited
from playground.models import Room, RoomEvent, Seat, Session
from playground.rooms import events, log, names, plan
from playground.rooms.exam import asked as exam
from playground.rooms.lessons import Outcome, checked_answer
from playground.rooms.state import RoomState

LONGEST_MESSAGE = 400  # characters
LONGEST_ANSWER = 2000  # characters of its JSON
MOST_TRIES = 100  # answers of a seat to one step
COMMANDS = ("pause", "resume", "pace", "message", "hint", "project", "reset", "end")
SEATS_OF_IT = "Its seats are on the wall."
STEPS_OF_IT = "GET /api/rooms/CODE lists the room's steps."


# ---- who asks ----


def find(address: str, code: str) -> Room:
    """The room of a code, as a person types it. Raises Refused: 404, or 429 for an address that guesses."""
    code = names.normal(code)
    room = limits.guesses.look(address, f"room {code}", Room.objects.filter(code=code).first)
    if room is None:
        raise log.gone()
    return room


def must_teach(address: str, room: Room, token: str) -> None:
    """Raise Refused(403) for a token that is not the teacher's of this room, 429 for an address that guesses."""
    right = bool(token) and limits.guesses.look(
        address, f"teacher {room.code} {token}", lambda: teaches(room, token) or None
    )
    if not right:
        raise Refused(403, "This needs the teacher's token of the room.", "Open the teacher's link of this room.")


def teaches(room: Room, token: str) -> bool:
    return hmac.compare_digest(room.teacher_hash, tokens.digest(token))


def must_sit(address: str, room: Room, token: str) -> Seat:
    """The seat of a token. Raises Refused as `must_teach` does."""
    seat = limits.guesses.look(address, f"seat {room.code} {token}", seat_of(room, token).first) if token else None
    if seat is None:
        raise no_seat()
    return seat


def no_seat() -> Refused:
    return Refused(403, "This needs a seat in this room.", "Join the room with its code and a nickname.")


def must_still_sit(seat: Seat) -> None:
    """Raise Refused(403) if the teacher reset the seat after its token was checked: its next student would have what
    the last one did. To be called while the room is locked."""
    if not Seat.objects.filter(id=seat.id, token_hash=seat.token_hash).exists():
        raise no_seat()


def seat_of(room: Room, token: str):
    return Seat.objects.filter(room=room, token_hash=tokens.digest(token))


# ---- rooms and seats ----


def open_room(address: str, asked: dict[str, Any]) -> tuple[Room, str]:
    """A new room and its teacher's token. Raises Refused."""
    limited(limits.rooms, [address], "rooms", count=False)
    if asked["own"]:  # reading them takes time, also where a mistake refuses the room
        limited(limits.checks, [address], "checks")
    chosen, deadline = plan.checked(asked)
    lessons = plan.lessons_of(chosen)
    opened = events.RoomOpened(chosen["title"], chosen["paced"], plan.outline(lessons), plan.steps_of(lessons, chosen))
    limited(limits.rooms, [address], "rooms")
    token, digest = tokens.new()
    with transaction.atomic():
        code = names.new_code()
        while Room.objects.filter(code=code).exists():
            code = names.new_code()
        room = Room.objects.create(code=code, teacher_hash=digest, plan=chosen, deadline=deadline)
        log.write(room, [(opened, None)])
    limits.guesses.right(address, f"room {code}")
    limits.guesses.right(address, f"teacher {code} {token}")
    return room, token


def join(address: str, room: Room, text: str) -> tuple[Seat, str]:
    """A seat under a nickname and its token; a seat that the teacher reset is taken again under its name. Raises
    Refused."""
    limited(limits.joins, [f"room {room.code}"], "students that join this room")
    name = names.nickname(text)
    token, digest = tokens.new()
    seats: list[Seat] = []

    def decide(room: Room, state: RoomState) -> log.Items:
        must_take_answers(room, state)
        seat = Seat.objects.filter(room=room, name_key=names.key_of(name)).first()
        if seat is not None and seat.token_hash is not None:
            fix = "Choose another nickname. If it is yours from another browser, ask the teacher to free the seat."
            raise Refused(409, "This nickname is taken in this room.", fix, field="name")
        if seat is None:
            if len(state.seats) >= room.plan["seats"]:
                error = f"All {room.plan['seats']} seats of this room are taken."
                raise Refused(409, error, "Ask the teacher to open a room with more seats.")
            seat = Seat(room=room, number=max(state.seats, default=0) + 1, name_key=names.key_of(name))
        seat.name, seat.token_hash = name, digest
        seat.save()
        seats.append(seat)
        yield events.SeatJoined(name), seat.number

    log.append(room.code, decide)
    limits.guesses.right(address, f"seat {room.code} {token}")
    return seats[0], token


def delete(room: Room) -> None:
    """Delete the room with its seats, its log, the sessions of its seats and the snapshots of these."""
    with transaction.atomic():
        started = RoomEvent.objects.filter(room=room, kind=events.SessionStarted.KIND)
        Session.objects.filter(snapshot__of__in=started.values(of=KT("data__session"))).delete()
        Room.objects.filter(code=room.code).delete()
    log.forget(room.code)


# ---- a seat ----


def must_take_answers(room: Room, state: RoomState) -> None:
    """Raise Refused(409) for a room that is over."""
    if state.ended:
        raise Refused(409, "The teacher ended this room.", "Your answers are kept, and the lessons are at /learn.")
    if room.deadline is not None and timezone.now() >= room.deadline:
        error = f"The deadline of this room was {when(room.deadline)}; it takes no more answers."
        raise Refused(409, error, "Your answers are kept, and the lessons are at /learn.")


def when(at: datetime) -> str:
    return f"{at:%d %B %Y, %H:%M} UTC".lstrip("0")


def must_be_open(room: Room, state: RoomState, key: str) -> dict[str, Any]:
    """The step of a key, on which students may work now. Raises Refused."""
    must_take_answers(room, state)
    if key not in state.places:
        raise Refused(404, f"This room has no step {key[:60]!r}.", STEPS_OF_IT, field="step")
    if state.paused:
        raise Refused(409, "The teacher paused the room.", "Wait until it goes on.")
    if not state.is_open(key):
        raise Refused(403, "The teacher has not opened this step yet.", "Wait until it opens.", field="step")
    return state.steps[state.places[key]]


def look(seat: Seat, key: str) -> None:
    """The student looks at a step. Raises Refused."""
    limited(limits.seats, [f"seat {seat.id}"], "messages of this seat")

    def decide(room: Room, state: RoomState) -> log.Items:
        must_still_sit(seat)
        must_be_open(room, state, key)
        if state.seats[seat.number].at != key:
            yield events.StepOpened(key), seat.number

    log.append(seat.room_id, decide)


def answer(seat: Seat, key: str, value: Any, attempt: str, show: bool = False, lang: str = "en") -> dict[str, Any]:
    """Check an answer and store it: {step, tries, answer, right, outcome}. The same `attempt` is stored once. `show`:
    give the right answer too, in a lesson. Raises Refused."""
    limited(limits.seats, [f"seat {seat.id}"], "messages of this seat")
    if len(json.dumps(value)) > LONGEST_ANSWER:
        raise Refused(413, f"An answer has at most {LONGEST_ANSWER} characters.", "Shorten it.", field="answer")
    room = Room.objects.filter(code=seat.room_id).first()
    if room is None:
        raise log.gone()
    outcome = _checked(room, seat, key, value, show, lang)
    replies: list[dict[str, Any]] = []

    def decide(room: Room, state: RoomState) -> log.Items:
        must_still_sit(seat)
        mine = state.seats[seat.number].answers.get(key)
        earlier = mine.attempts.get(attempt) if mine is not None and attempt else None
        if earlier is not None:  # its sender did not hear the reply
            replies.append(_reply(state, key, earlier, mine.tries, outcome))
            return
        step = must_be_open(room, state, key)
        if not step["question"]:
            raise Refused(422, "This step asks nothing.", STEPS_OF_IT, field="step")
        if mine is not None and step["part"] != events.LESSON:
            raise Refused(409, "A question of the test is answered once.", "Go on to the next one.", field="step")
        if step["part"] == events.BEFORE and _went_on(state.seats[seat.number].answers):
            error = "The test before the lessons is over for you: you have answered a lesson or the test after."
            raise Refused(409, error, "Go on with the lessons.", field="step")
        if mine is not None and mine.tries >= MOST_TRIES:
            raise Refused(409, f"This step has {MOST_TRIES} answers of yours.", "Ask the teacher.", field="step")
        if outcome is None or outcome.code == "unreadable":  # it counts as no answer
            words = outcome.html if outcome is not None else "The lesson no longer has this question."
            raise Refused(422, html.unescape(words), "Answer in the form that the step shows.", field="answer")
        event = events.StepAnswered(key, value, outcome.right, outcome.html, attempt)
        replies.append(_reply(state, key, event.encode(), (mine.tries if mine else 0) + 1, outcome))
        yield event, seat.number

    log.append(seat.room_id, decide)
    return replies[0]


def _went_on(keys: Iterable[str]) -> bool:
    """Return True if one of the answered steps is none of the test before: from then on its answers would not show what
    a student knew before."""
    return any(not key.startswith(f"{events.BEFORE}:") for key in keys)


def _checked(room: Room, seat: Seat, key: str, value: Any, show: bool, lang: str) -> Outcome | None:
    part, colon, skill = key.partition(":")
    if colon:
        return checked_answer(exam.lesson(room.plan, seat.number, part, lang), skill, value)
    slug, _, step = key.partition("/")
    return checked_answer(plan.lessons_of(room.plan, lang).get(slug), step, value, show)


def _reply(state: RoomState, key: str, data: dict[str, Any], tries: int, outcome: Any) -> dict[str, Any]:
    """The answer to an answer: in the test before the lessons it says no verdict."""
    part = state.steps[state.places[key]]["part"]
    reply = {"step": key, "tries": tries, "answer": data["answer"]}
    return reply if part == events.BEFORE else reply | {"right": data["right"], "outcome": outcome.to_json()}


def counts(seat: Seat, key: str) -> dict[str, Any]:
    """How the room answered a step, without names: {answered, right, answers: [{answer, seats}]}. Raises Refused(403)
    before the seat's own answer, and during a test."""

    def look_at(state: RoomState) -> dict[str, Any]:
        if key not in state.places:
            raise Refused(404, f"This room has no step {key[:60]!r}.", STEPS_OF_IT, field="step")
        if key not in state.seats[seat.number].answers:
            raise Refused(403, "Answer this step first.", "The room's answers can be seen after your own.")
        if state.steps[state.places[key]]["part"] != events.LESSON:
            raise Refused(403, "The answers of a test are the teacher's.", "Go on to the next question.")
        rows = [s.answers[key] for s in state.seats.values() if key in s.answers]
        tally: dict[str, int] = {}
        for row in rows:
            text = json.dumps(row.first, ensure_ascii=False, sort_keys=True)
            tally[text] = tally.get(text, 0) + 1
        return {
            "step": key, "answered": len(rows), "right": sum(row.first_right is True for row in rows),
            "answers": [{"answer": json.loads(t), "seats": n} for t, n in sorted(tally.items(), key=lambda p: -p[1])],
        }  # fmt: skip

    return log.read(seat.room_id, look_at)


# ---- the teacher ----


def command(room: Room, kind: str, data: dict[str, Any]) -> int:
    """A command of the teacher, whose right the caller has checked. Returns the seq of its event. Raises Refused."""
    limited(limits.commands, [f"room {room.code}"], "commands")
    return log.append(room.code, lambda room, state: _obey(room, state, kind, data))


def _obey(room: Room, state: RoomState, kind: str, data: dict[str, Any]) -> log.Items:
    if state.ended:
        raise Refused(409, "This room has ended.", "Export its results, or open a new room.")
    match kind:
        case "pause" | "resume":
            if state.paused != (kind == "pause"):
                yield (events.RoomPaused() if kind == "pause" else events.RoomResumed()), None
        case "pace":
            key = _text(data, "step", 120)
            if key and key not in state.places:
                raise Refused(404, f"This room has no step {key[:60]!r}.", STEPS_OF_IT, field="step")
            yield events.RoomPaced(key), None
        case "message":
            text = " ".join(_text(data, "text", LONGEST_MESSAGE).split())
            if not names.readable(text):
                raise Refused(422, "text: it holds characters that cannot be seen.", "Write plain text.", field="text")
            yield events.RoomMessage(text), None
        case "hint":
            key = _text(data, "step", 120)
            if key not in state.places:
                raise Refused(404, f"This room has no step {key[:60]!r}.", STEPS_OF_IT, field="step")
            yield events.HintShown(key), None
        case "project":
            number = data.get("seat")
            if number is not None:
                _seat(state, number)
            yield events.SeatProjected(number), None
        case "reset":
            number, keep = _seat(state, data.get("seat")), data.get("keep", False)
            if not isinstance(keep, bool):
                raise Refused(422, "keep: true or false.", "Leave it out to delete the answers.", field="keep")
            Seat.objects.filter(room=room, number=number).update(token_hash=None)
            yield events.SeatReset(keep), number
        case "end":
            yield events.RoomEnded(), None
        case _:
            raise Refused(422, f"{kind[:40]!r} is no command.", f"Send one of {', '.join(COMMANDS)}.", field="kind")


def _text(data: dict[str, Any], name: str, most: int) -> str:
    value = data.get(name, "")
    if not isinstance(value, str) or len(value) > most:
        raise Refused(422, f"{name}: a text of at most {most} characters.", "Shorten it.", field=name)
    return value


def _seat(state: RoomState, number: Any) -> int:
    if type(number) is not int or number not in state.seats:
        raise Refused(404, "This room has no such seat.", SEATS_OF_IT, field="seat")
    return number
