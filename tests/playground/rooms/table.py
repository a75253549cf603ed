"""Every request and socket message of a room, with the answer for each visitor: the data of test_who_may_do_what.py.

A stranger knows neither the code nor a token. A guest knows the code. A student has a seat, the teacher the teacher's
token. In a path and a body CODE is the room's code; OTHER that of another room, in which the student has no seat.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

VISITORS = ("stranger", "guest", "student", "teacher")
STEP, SHUT, READ = "roofline/which", "roofline/numbers", "roofline/two-speeds"


@dataclass(frozen=True)
class Row:
    """A request and its answers, in the order of VISITORS. `route`: as the resolver has it; `path`: what is asked, ""
    for the route itself; `token`: the header that carries the visitor's token."""

    method: str
    route: str
    answers: tuple[int, int, int, int]
    body: Any = None
    path: str = ""


def teachers(kind: str, status: int = 202, **data: Any) -> Row:
    body = {"kind": kind, "data": data}
    return Row("POST", "api/rooms/<code>/commands", (404, 403, 403, status), body)


def answer(step: str, value: Any, status: int, **more: Any) -> Row:
    body = {"step": step, "answer": value, **more}
    return Row("POST", "api/rooms/<code>/answers", (404, 403, status, 403), body)


ROOM = {"title": "t", "lessons": ["roofline"]}
MODULE = {"source": "class Model: ...", "trials": 4}
SESSIONS = "api/rooms/<code>/sessions"
EVENTS = "api/rooms/<code>/events"
TEST = "api/rooms/<code>/test/<part>"

ROWS = [
    # pages: nothing of a room is in them
    Row("GET", "w", (200,) * 4),
    Row("GET", "w", (302,) * 4, path="/w?code=abc234"),
    Row("GET", "w/new", (200,) * 4),
    Row("GET", "w/<str:code>", (404, 200, 200, 200)),
    Row("GET", "w/<str:code>/wall", (404, 200, 200, 200)),
    Row("GET", "w/<str:code>/wall/<str:token>", (404, 404, 404, 200)),
    # opening a room
    Row("POST", "api/rooms", (201,) * 4, ROOM),
    Row("POST", "api/rooms", (422,) * 4, {"title": "t", "lessons": []}),
    Row("POST", "api/rooms", (422,) * 4, {"title": "t", "lessons": ["nothing"]}),
    Row("POST", "api/rooms", (422,) * 4, ROOM | {"title": "a\u202eb"}),
    Row("POST", "api/rooms", (422,) * 4, ROOM | {"seats": 0}),
    Row("POST", "api/rooms", (422,) * 4, ROOM | {"seats": 10_000}),
    Row("POST", "api/rooms", (422,) * 4, ROOM | {"deadline": 1.0}),
    Row("POST", "api/rooms", (422,) * 4, ROOM | {"deadline": 1e12}),
    Row("POST", "api/rooms", (422,) * 4, ROOM | {"own": ["# no lesson"]}),
    Row("POST", "api/rooms", (422,) * 4, ROOM | {"teacher_token": "mine"}),
    Row("POST", "api/rooms", (422,) * 4, {"own": ["---\ntitle: t\nminutes: 5\n---\n## read a: A\nx\n"], "test": True}),
    # a room
    Row("GET", "api/rooms/<code>", (404, 200, 200, 200)),
    Row("GET", "api/rooms/<code>/results", (404, 403, 403, 200)),
    Row("GET", "api/rooms/<code>/results", (404, 403, 403, 403), path="/api/rooms/OTHER/results"),
    Row("GET", "api/rooms/<code>/results.csv", (404, 403, 403, 200)),
    Row("GET", "api/rooms/<code>/moved.csv", (404, 403, 403, 200)),
    Row("GET", "api/rooms/<code>/moved.csv", (404, 403, 403, 403), path="/api/rooms/OTHER/moved.csv"),
    Row("GET", EVENTS, (404, 403, 200, 200)),
    Row("GET", EVENTS, (422,) * 4, path="/api/rooms/CODE/events?after=-1"),
    Row("GET", EVENTS, (404, 403, 403, 403), path="/api/rooms/OTHER/events"),
    Row("DELETE", "api/rooms/<code>", (404, 403, 403, 422)),
    Row("DELETE", "api/rooms/<code>", (404, 403, 403, 422), path="/api/rooms/CODE?confirm=OTHER"),
    Row("DELETE", "api/rooms/<code>", (404, 403, 403, 204), path="/api/rooms/CODE?confirm=CODE"),
    teachers("pause"), teachers("resume"), teachers("end"),
    teachers("pace"), teachers("pace", step=STEP), teachers("pace", 404, step="nothing"),
    teachers("message", text="five more minutes"), teachers("message", 422, text="x" * 401),
    teachers("message", 422, text="a\u202eb"), teachers("message", 422, text=1),
    teachers("hint", step=STEP), teachers("hint", 404, step="nothing"),
    teachers("project", seat=1), teachers("project", 404, seat=99), teachers("project", 404, seat=True),
    teachers("reset", seat=1), teachers("reset", 404), teachers("reset", 422, seat=1, keep="yes"),
    Row("POST", "api/rooms/<code>/commands", (422,) * 4, {"kind": "explode"}),
    # seats
    Row("POST", "api/rooms/<code>/seats", (404, 201, 201, 201), {"name": "Grace"}),
    Row("POST", "api/rooms/<code>/seats", (404, 409, 409, 409), {"name": " aDA "}),
    Row("POST", "api/rooms/<code>/seats", (404, 409, 409, 409), {"name": "Ａｄａ"}),
    Row("POST", "api/rooms/<code>/seats", (404, 422, 422, 422), {"name": "\t \n"}),
    Row("POST", "api/rooms/<code>/seats", (404, 422, 422, 422), {"name": "x" * 25}),
    Row("POST", "api/rooms/<code>/seats", (404, 422, 422, 422), {"name": "a\u200bb"}),
    Row("POST", "api/rooms/<code>/seats", (404, 422, 422, 422), {"name": "a\x1bb"}),
    Row("POST", "api/rooms/<code>/seats", (404, 422, 422, 422), {"name": "Ada\u3164"}),
    Row("POST", "api/rooms/<code>/seats", (404, 409, 409, 409), {"name": "Ada\ufe0f"}),
    Row("GET", "api/rooms/<code>/seat", (404, 403, 200, 403)),
    Row("GET", "api/rooms/<code>/seat", (404, 403, 403, 403), path="/api/rooms/OTHER/seat"),
    Row("GET", "api/rooms/<code>/lessons/<lesson>", (404, 403, 200, 200), path="/api/rooms/CODE/lessons/roofline"),
    Row("GET", "api/rooms/<code>/lessons/<lesson>", (404, 403, 404, 404), path="/api/rooms/CODE/lessons/nothing"),
    Row("GET", "api/rooms/<code>/test", (404, 403, 403, 200)),
    Row("GET", "api/rooms/<code>/test", (404, 403, 403, 403), path="/api/rooms/OTHER/test"),
    Row("GET", TEST, (404, 403, 200, 403), path="/api/rooms/CODE/test/before"),
    Row("GET", TEST, (404, 403, 403, 403), path="/api/rooms/OTHER/test/before"),
    Row("GET", TEST, (422,) * 4, path="/api/rooms/CODE/test/nothing"),
    Row("POST", "api/rooms/<code>/steps", (404, 403, 202, 403), {"step": STEP}),
    Row("POST", "api/rooms/<code>/steps", (404, 403, 403, 403), {"step": SHUT}),
    Row("POST", "api/rooms/<code>/steps", (404, 403, 404, 403), {"step": "nothing"}),
    answer(STEP, "longer", 201), answer(STEP, "sum", 201, attempt="1"), answer(STEP, "no option", 422),
    answer(STEP, {"$ne": 1}, 422), answer(SHUT, 1, 403), answer(READ, "x", 422), answer("nothing", 1, 404),
    answer(STEP, "x" * 3000, 413), answer("before:roofline/which", "sum", 404),
    answer("before:limit", 1, 201), answer("before:limit", "x", 422), answer("after:limit", 1, 403),
    Row("POST", "api/rooms/<code>/answers", (422,) * 4, {"step": STEP, "answer": "sum", "seat": 2}),
    # another's answers: the student of this table has answered none yet
    Row("GET", "api/rooms/<code>/answers", (404, 403, 403, 403), path=f"/api/rooms/CODE/answers?step={STEP}"),
    Row("GET", "api/rooms/<code>/answers", (404, 403, 404, 403), path="/api/rooms/CODE/answers?step=nothing"),
    # sessions on a seat's account
    Row("POST", SESSIONS, (404, 403, 201, 403), MODULE),
    Row("POST", SESSIONS, (404, 403, 422, 403), MODULE | {"trials": 13}),
    Row("POST", SESSIONS, (404, 403, 422, 403), MODULE | {"strategy": "flat"}),
    Row("POST", SESSIONS, (404, 403, 403, 403), MODULE, path=f"/api/rooms/CODE/sessions?step={SHUT}"),
]  # fmt: skip

# A visitor's first message on the room's socket, and one more: the close code, or 0 if it stays open. TOKEN is the
# visitor's token; a stranger's and a guest's are made up.
HELLO = {"token": "TOKEN", "after": 0}
MESSAGES = [
    ([HELLO], (4404, 4403, 0, 0)),
    ([{"token": "TOKEN"}], (4404, 4403, 0, 0)),
    ([HELLO, {"ack": 3}], (4404, 4403, 0, 0)),
    ([HELLO, {"pong": 1}], (4404, 4403, 0, 0)),
    ([HELLO, {"ack": -1}], (4404, 4403, 4400, 4400)),
    ([HELLO, {"token": "TOKEN"}], (4404, 4403, 4400, 4400)),
    ([HELLO, {"kind": "pause"}], (4404, 4403, 4400, 4400)),
    ([{"ack": 0}], (4400,) * 4),
    ([{"token": ""}], (4400,) * 4),
    ([{"token": "\ud800"}], (4400,) * 4),
    ([{"token": 1}], (4400,) * 4),
    ([{"token": "TOKEN", "after": -1}], (4400,) * 4),
    ([{"token": "TOKEN", "after": True}], (4400,) * 4),
    ([{"token": "TOKEN", "seat": 1}], (4400,) * 4),
    ([[]], (4400,) * 4),
    ([b"{"], (4400,) * 4),
    ([b"[" * 2000], (4400,) * 4),
]
