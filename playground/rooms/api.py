"""Rooms over HTTP. The teacher's token comes in the header X-Teacher-Token, a seat's in X-Seat-Token."""

from __future__ import annotations

from typing import Literal

from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from ninja import Header, Query, Router, Status

from engine.session.spec import SpecFields
from playground.access import limits, sessions
from playground.access.answers import Refused
from playground.learn.api import LessonOut
from playground.models import Room, Seat
from playground.openapi.forms import SessionMade, not_json
from playground.rooms import forms, lessons, log, names, plan, results, rules, runs
from playground.rooms.exam import asked as exam

router = Router(tags=["workshops"])
ANONYMOUS = Query(False, description="leave every name out")


def taught(request: HttpRequest, code: str, token: str) -> Room:
    """The room, for its teacher. Raises Refused."""
    room = rules.find(limits.address(request), code)
    rules.must_teach(limits.address(request), room, token)
    return room


def seated(request: HttpRequest, code: str, token: str) -> Seat:
    """The seat that asks. Raises Refused."""
    room = rules.find(limits.address(request), code)
    return rules.must_sit(limits.address(request), room, token)


@router.post("/rooms", response={201: forms.RoomMade}, summary="Open a room")
def open_room(request: HttpRequest, asked: forms.RoomIn):
    room, token = rules.open_room(limits.address(request), asked.dict())
    address = request.build_absolute_uri
    return Status(
        201,
        {
            "code": room.code,
            "join_url": address(reverse("room", args=[room.code])),
            "teacher_url": address(reverse("teacher", args=[room.code, token])),
            "teacher_token": token,
        },
    )


@router.get("/rooms/{code}", response=forms.RoomOut, summary="A room: its lessons, its steps, whether it takes answers")
def show(request: HttpRequest, code: str):
    room = rules.find(limits.address(request), code)
    return results.facts(room) | log.read(room.code, lambda state: state.to_json() | {"seats": len(state.seats)})


@router.delete("/rooms/{code}", response={204: None}, summary="Delete a room with everything in it (teacher)")
def delete(
    request: HttpRequest, code: str, confirm: str = Query("", max_length=40, description="the code, once more"),
    x_teacher_token: str = Header(""),
):  # fmt: skip
    room = taught(request, code, x_teacher_token)
    if names.normal(confirm) != room.code:
        error = "Nothing was deleted: the request does not confirm the room's code."
        raise Refused(422, error, f"Add ?confirm={room.code} to delete every answer for ever.", field="confirm")
    rules.delete(room)
    return HttpResponse(status=204)


@router.post(
    "/rooms/{code}/commands", response={202: forms.Commanded},
    summary="The teacher's commands: pace, pause, reset, ...",
)  # fmt: skip
def command(request: HttpRequest, code: str, body: forms.TeacherIn, x_teacher_token: str = Header("")):
    room = taught(request, code, x_teacher_token)
    return Status(202, {"kind": body.kind, "seq": rules.command(room, body.kind, body.data)})


@router.get(
    "/rooms/{code}/test", response=forms.FormsOut, summary="Both forms of the test with their answers (teacher)"
)
def forms_of(request: HttpRequest, code: str, lang: Literal["en", "ko"] = "en", x_teacher_token: str = Header("")):
    """Seats with an even number have the first form before the lessons, the others the second."""
    return {"forms": exam.answered(taught(request, code, x_teacher_token).plan, lang)}


@router.get(
    "/rooms/{code}/results", response=forms.ResultsOut,
    summary="The results: every seat, its answers and its gap, the test (teacher)",
)  # fmt: skip
def results_of(request: HttpRequest, code: str, anonymous: bool = ANONYMOUS, x_teacher_token: str = Header("")):
    return results.wall(taught(request, code, x_teacher_token), anonymous)


@router.get("/rooms/{code}/results.csv", summary="The answers as CSV (teacher)", openapi_extra=not_json("text/csv"))
def table(request: HttpRequest, code: str, anonymous: bool = ANONYMOUS, x_teacher_token: str = Header("")):
    room = taught(request, code, x_teacher_token)
    return _csv(results.table(room, anonymous), f"room-{room.code}.csv")


@router.get(
    "/rooms/{code}/moved.csv", summary="What moved between the two tests, as CSV (teacher)",
    openapi_extra=not_json("text/csv"),
)  # fmt: skip
def moved(request: HttpRequest, code: str, anonymous: bool = ANONYMOUS, x_teacher_token: str = Header("")):
    """Rows for the room, for each skill and for each seat: `of` is room, skill or seat."""
    room = taught(request, code, x_teacher_token)
    return _csv(results.moved_table(room, anonymous), f"room-{room.code}-moved.csv")


def _csv(text: str, name: str) -> HttpResponse:
    response = HttpResponse(text, content_type="text/csv; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["Cache-Control"] = "private, no-store"
    return response


@router.get("/rooms/{code}/events", summary="The room's log after a cursor, as the teacher or a seat may read it")
def read_events(
    request: HttpRequest, code: str, after: int = Query(0, ge=0), limit: int = Query(500, ge=1, le=2000),
    x_teacher_token: str = Header(""), x_seat_token: str = Header(""),
):  # fmt: skip
    reader = log.Reader()
    if x_teacher_token or not x_seat_token:
        room = taught(request, code, x_teacher_token)
    else:
        seat = seated(request, code, x_seat_token)
        room, reader = seat.room, log.reader_of(seat.room_id, seat.number)
    rows = log.after(room.code, after, limit, reader)
    reached = rows[-1][0] if rows else after
    return {"events": [row for _, row in rows if row], "reached": reached, "last": max(room.last_seq, reached)}


# ---- seats ----


@router.post("/rooms/{code}/seats", response={201: forms.SeatMade}, summary="Join a room under a nickname")
def join(request: HttpRequest, code: str, asked: forms.SeatIn):
    address = limits.address(request)
    seat, token = rules.join(address, rules.find(address, code), asked.name)
    return Status(201, {"seat": seat.number, "name": seat.name, "token": token})


@router.get(
    "/rooms/{code}/seat", response=forms.OwnSeat, exclude_unset=True, summary="The room and one's own answers (seat)"
)
def own_seat(request: HttpRequest, code: str, x_seat_token: str = Header("")):
    seat = seated(request, code, x_seat_token)
    return results.of_seat(seat)


@router.get(
    "/rooms/{code}/lessons/{lesson}", response=LessonOut,
    summary="A lesson of the room, as the pages show it (seat or teacher)",
)  # fmt: skip
def lesson_of(
    request: HttpRequest, code: str, lesson: str, lang: Literal["en", "ko"] = "en",
    x_seat_token: str = Header(""), x_teacher_token: str = Header(""),
):  # fmt: skip
    teacher = x_teacher_token and taught(request, code, x_teacher_token)
    room = teacher or seated(request, code, x_seat_token).room
    chosen = plan.lessons_of(room.plan, lang).get(lesson)
    if chosen is None:
        raise Refused(404, "This room has no such lesson.", "GET /api/rooms/CODE lists its lessons.")
    return lessons.shown(chosen)


@router.get(
    "/rooms/{code}/test/{part}", response=LessonOut,
    summary="The questions of the test before or after the lessons (seat)",
)  # fmt: skip
def test_of(
    request: HttpRequest, code: str, part: Literal["before", "after"], lang: Literal["en", "ko"] = "en",
    x_seat_token: str = Header(""),
):  # fmt: skip
    """One step a skill, in the form of a lesson. Two seats may have other modules."""
    seat = seated(request, code, x_seat_token)
    questions = exam.lesson(seat.room.plan, seat.number, part, lang)
    if questions is None:
        raise Refused(404, "This room has no test.", "GET /api/rooms/CODE lists its lessons.")
    return lessons.shown(questions)


@router.post("/rooms/{code}/steps", response={202: forms.Looked}, summary="Say which step is on the screen (seat)")
def look(request: HttpRequest, code: str, body: forms.StepIn, x_seat_token: str = Header("")):
    rules.look(seated(request, code, x_seat_token), body.step)
    return Status(202, {"step": body.step})


@router.post(
    "/rooms/{code}/answers", response={201: forms.Answered}, exclude_unset=True, summary="Answer a step (seat)"
)
def answer(request: HttpRequest, code: str, body: forms.RoomAnswerIn, x_seat_token: str = Header("")):
    seat = seated(request, code, x_seat_token)
    return Status(201, rules.answer(seat, body.step, body.answer, body.attempt, body.show, body.lang))


@router.get(
    "/rooms/{code}/answers", response=forms.Counts,
    summary="How the room answered a step, after one's own answer (seat)",
)  # fmt: skip
def counts(request: HttpRequest, code: str, step: str = Query(..., max_length=200), x_seat_token: str = Header("")):
    return rules.counts(seated(request, code, x_seat_token), step)


@router.post(
    "/rooms/{code}/sessions", response={201: SessionMade}, summary="Start a session on the seat's account (seat)"
)
def start(
    request: HttpRequest, code: str, asked: SpecFields, step: str = Query("", max_length=200),
    x_seat_token: str = Header(""),
):  # fmt: skip
    session, token = runs.start(limits.address(request), seated(request, code, x_seat_token), asked, step)
    return Status(201, sessions.links(request, session, token))
