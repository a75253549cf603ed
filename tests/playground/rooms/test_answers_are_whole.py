"""A room's answers over HTTP hold everything that the pages read: a field that a form of the API lacks would be dropped
in silence."""

import json
from typing import Any

import pytest

from playground.models import Room, Seat
from playground.rooms import log, results, rules
from playground.rooms.exam import asked

pytestmark = pytest.mark.django_db


def as_json(data: Any) -> Any:
    return json.loads(json.dumps(data))


@pytest.fixture
def room(visit):
    """A room with a test in the middle of its work."""
    room = visit(lessons=["roofline", "memory-bound"], test=True)
    room.ada = room.seat("Ada")
    room.post(room.path("sessions?step=roofline/move-point"), {"source": "class Model: ...", "trials": 2}, room.ada)
    room.answer(room.ada, "before:limit", 1)
    for value in ("sum", "longer"):
        room.answer(room.ada, "roofline/which", value)
    room.order("hint", step="roofline/which")
    room.order("project", seat=1)
    return room


def test_the_results_are_whole(room):
    row = Room.objects.get(code=room.code)
    assert room.results() == as_json(results.wall(row))
    assert room.results()["sessions"]["1"]["state"] == "queued"
    anonymous = room.get("results?anonymous=true", room.teacher).json()
    assert anonymous == as_json(results.wall(row, anonymous=True))


def test_the_room_and_a_seat_are_whole(room):
    row = Room.objects.get(code=room.code)
    state = log.read(room.code, lambda state: state.to_json())
    assert room.client.get(f"/api/rooms/{room.code}").json() == as_json(results.facts(row) | state | {"seats": 1})
    seat = Seat.objects.get(room=row)
    own = room.get("seat", room.ada).json()
    assert own == as_json(results.of_seat(seat))
    assert "right" not in own["seat"]["answers"]["before:limit"], "no verdict before the lessons, not even a null"
    assert own["seat"]["answers"]["roofline/which"]["right"] is True


def test_an_answer_and_the_rooms_answers_are_whole(room):
    grace = room.seat("Grace")
    assert set(room.answer(grace, "before:limit", 1).json()) == {"step", "tries", "answer"}
    reply = room.answer(grace, "roofline/which", "sum").json()
    assert set(reply) == {"step", "tries", "answer", "right", "outcome"}
    assert set(reply["outcome"]) >= {"right", "code", "known", "html", "answer"}
    seat = Seat.objects.get(room=room.code, number=2)
    counts = room.get("answers?step=roofline/which", grace).json()
    assert counts == as_json(rules.counts(seat, "roofline/which")) and counts["answered"] == 2
    forms = room.get("test", room.teacher).json()["forms"]
    assert forms == as_json(asked.answered(Room.objects.get(code=room.code).plan))
