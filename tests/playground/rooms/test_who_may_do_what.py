"""Who may do what in a room: every request and every socket message, by stranger, guest, student and teacher."""

import json
import re

import pytest
from django.db import transaction

from playground.live.viewers import MESSAGES
from playground.rooms import log
from tests.playground.rooms import table
from tests.playground.rooms.conftest import Visit
from tests.playground.test_request_table import routes

MADE_UP = "Zx" * 16


def test_every_route_of_a_room_has_a_row():
    of_rooms = {route for route in routes() if re.match("(api/rooms|w)(/|$)", route)}
    assert {row.route for row in table.ROWS} == of_rooms


def test_the_table_has_at_least_thirty_refusals():
    refusals = [a for row in table.ROWS for a in row.answers if a >= 400]
    assert len(refusals) > 150 and sum(any(a >= 400 for a in row.answers) for row in table.ROWS) >= 30
    assert {key for messages, _ in table.MESSAGES for m in messages if isinstance(m, dict) for key in m} >= MESSAGES


def path_of(row: table.Row) -> str:
    route = row.route.replace("<str:", "<").replace("<code>", "CODE").replace("<token>", "TOKEN")
    return row.path or f"/{route}"


@pytest.mark.django_db
@pytest.mark.parametrize("row", table.ROWS, ids=lambda r: f"{r.method} {path_of(r)[:44]} {r.answers[2:]}")
def test_a_request_is_answered_as_the_table_says(client, row):
    room, other = Visit(client, paced=True, test=True), Visit(client)
    room.order("pace", step=table.STEP)
    seat = room.seat("Ada")["X-Seat-Token"]
    other.seat("Ada")
    for visitor, status in zip(table.VISITORS, row.answers, strict=True):
        with transaction.atomic():
            _asked(room, other, seat, row, visitor, status)
            transaction.set_rollback(True)
        log.forget(room.code), log.forget(other.code)  # what they folded was rolled back


def _asked(room: Visit, other: Visit, seat: str, row: table.Row, visitor: str, status: int) -> None:
    """Send the request as a visitor does, and compare the answer."""
    code, beside = ("WWWWWW", "XXXXXX") if visitor == "stranger" else (room.code, other.code)
    token = {"student": seat, "teacher": room.room["teacher_token"]}.get(visitor, MADE_UP)
    header = "X-Teacher-Token" if visitor == "teacher" else "X-Seat-Token"
    if visitor == "student" and re.search("commands|results|confirm|wall|moved|test$|OTHER/test$", path_of(row)):
        header = "X-Teacher-Token"  # a student tries with the only token there is
    path = path_of(row).replace("CODE", code).replace("OTHER", beside).replace("TOKEN", token)
    body = json.dumps(row.body) if row.body is not None else ""
    reply = room.client.generic(row.method, path, body, content_type="application/json", headers={header: token})
    assert reply.status_code == status, (visitor, reply.content[:300])
    text = reply.content.decode("utf-8", "replace")
    if status >= 400 and path.startswith("/api/"):
        assert set(reply.json()) >= {"error", "fix"}
    if visitor != "teacher":
        assert room.room["teacher_token"] not in text
    if "/seats" not in path and visitor != "student":
        assert seat not in text
    if not path.startswith("/api/"):
        assert reply["Content-Security-Policy"] and (status in (302, 404) or "Ada" not in text)
