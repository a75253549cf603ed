"""What a room does for its seats and its teacher, request by request."""

import csv
import io
import re
import time
import unicodedata
from datetime import timedelta

import pytest
from django.utils import timezone

from engine.session.spec import SpecFields
from playground import retention
from playground.access import limits
from playground.access.answers import Refused
from playground.access.redaction import redact
from playground.access.requests import room_in_queue
from playground.live import log as session_log
from playground.live import turns
from playground.live.running import Running
from playground.models import AppendOnly, Room, RoomEvent, Seat, Session, SessionEvent
from playground.rooms import log, names, results, rules, runs
from playground.rooms.events import KINDS
from tests.playground import script

pytestmark = pytest.mark.django_db
STEP, NUMBER = "roofline/which", "roofline/numbers"
MODULE = {"source": "class Model: ...", "trials": 4}


def events(room) -> list[tuple[str, dict]]:
    return [(e.kind, e.data) for e in RoomEvent.objects.filter(room_id=room.code).order_by("seq")]


def test_an_answer_is_checked_by_sol_and_stored_once(visit):
    room = visit()
    ada = room.seat("Ada")
    wrong = room.answer(ada, STEP, "sum", attempt="a").json()
    assert (wrong["right"], wrong["tries"]) == (False, 1) and "hidden" in wrong["outcome"]["html"]
    assert room.answer(ada, STEP, "sum", attempt="a").json() == wrong
    right = room.answer(ada, STEP, "longer", attempt="b").json()
    assert (right["right"], right["tries"]) == (True, 2)
    (seat,) = room.results()["seats"]
    assert seat["answers"][STEP] | {"t": 0, "why": ""} == {
        "tries": 2, "first": "sum", "first_right": False, "last": "longer", "right": True, "why": "", "t": 0,
    }  # fmt: skip
    assert [kind for kind, _ in events(room)] == ["room.opened", "seat.joined", "seat.answered", "seat.answered"]
    assert set(KINDS) >= {kind for kind, _ in events(room)}


def test_an_event_is_never_changed(visit):
    room = visit()
    event = RoomEvent.objects.get(room_id=room.code)
    with pytest.raises(AppendOnly):
        event.save()
    with pytest.raises(AppendOnly):
        RoomEvent.objects.filter(room_id=room.code).update(kind="x")


def test_another_seats_answers_are_seen_after_ones_own_alone(visit):
    room = visit()
    ada, grace = room.seat("Ada"), room.seat("Grace")
    room.answer(ada, STEP, "sum")
    assert room.get(f"answers?step={STEP}", grace).status_code == 403
    assert '"sum"' not in room.get("events", grace).content.decode()
    assert set(room.get("seat", grace).json()["seat"]["answers"]) == set()
    room.answer(grace, STEP, "longer")
    counts = room.get(f"answers?step={STEP}", grace).json()
    assert (counts["answered"], counts["right"]) == (2, 1) and {a["answer"] for a in counts["answers"]} == {
        "sum", "longer",
    }  # fmt: skip
    kinds = [e["kind"] for e in room.get("events", grace).json()["events"]]
    assert kinds == ["room.opened", "seat.joined", "seat.answered"]
    assert len(room.get("events", room.teacher).json()["events"]) == 5


def test_the_pace_the_pause_and_the_end_hold_for_everybody(visit):
    room = visit(paced=True)
    ada = room.seat("Ada")
    assert room.answer(ada, STEP, "sum").status_code == 403
    room.order("pace", step=STEP)
    assert room.answer(ada, STEP, "sum").status_code == 201
    assert room.answer(ada, NUMBER, "1").status_code == 403
    room.order("pace")
    assert room.answer(ada, NUMBER, "1").status_code == 201
    room.order("pause")
    assert "paused" in room.answer(ada, STEP, "longer").json()["error"]
    assert room.post(room.path("sessions"), MODULE, ada).status_code == 409
    room.order("resume")
    assert room.answer(ada, STEP, "longer").status_code == 201
    room.order("message", text="  five\tmore minutes ")
    room.order("hint", step=STEP)
    mine = room.get("seat", ada).json()
    assert (mine["message"], mine["hints"], mine["open_to"]) == ("five more minutes", [STEP], None)
    room.order("end")
    assert room.answer(ada, STEP, "longer").status_code == 409 and room.join("Grace").status_code == 409
    assert room.order("resume").status_code == 409 and len(room.results()["seats"]) == 1


def test_a_room_with_a_deadline_takes_answers_until_then(visit):
    room = visit(deadline=time.time() + 3600)
    ada = room.seat("Ada")
    assert room.answer(ada, STEP, "sum", attempt="a").status_code == 201
    Room.objects.update(deadline=timezone.now() - timedelta(seconds=1))
    late = room.answer(ada, STEP, "longer")
    assert late.status_code == 409 and "deadline" in late.json()["error"] and "UTC" in late.json()["error"]
    assert room.answer(ada, STEP, "sum", attempt="a").status_code == 201, "it came in time"
    assert room.join("Grace").status_code == 409
    assert room.get("seat", ada).json()["seat"]["answers"][STEP]["tries"] == 1


@pytest.mark.parametrize("keep", [True, False])
def test_a_seat_that_was_reset_is_taken_again_under_its_name(visit, keep):
    room = visit()
    ada = room.seat("Ada")
    room.answer(ada, STEP, "sum")
    room.order("reset", seat=1, keep=keep)
    assert room.get("seat", ada).status_code == 403 and room.answer(ada, STEP, "longer").status_code == 403
    again = room.join("ADA")
    assert again.json()["seat"] == 1
    token = {"X-Seat-Token": again.json()["token"]}
    assert set(room.get("seat", token).json()["seat"]["answers"]) == ({STEP} if keep else set())
    assert ('"sum"' in room.get("events", token).content.decode()) == keep
    assert Seat.objects.count() == 1 and room.results()["seats"][0]["free"] is False


def test_what_comes_late_from_a_seat_that_was_reset_is_not_its_next_students(visit):
    room = visit()
    token = room.seat("Ada")["X-Seat-Token"]
    late = rules.must_sit("", Room.objects.get(code=room.code), token)
    room.order("reset", seat=1)
    successor = room.seat("Ada")
    for act in (
        lambda: rules.answer(late, STEP, "sum", ""),
        lambda: rules.look(late, STEP),
        lambda: runs.start("", late, SpecFields(**MODULE)),
    ):
        with pytest.raises(Refused) as refused:
            act()
        assert refused.value.status == 403
    assert room.get("seat", successor).json()["seat"] | {"joined": 0, "name": ""} == {
        "number": 1, "name": "", "joined": 0, "at": "", "free": False, "answers": {}, "sessions": [],
    }  # fmt: skip


def test_a_room_has_as_many_seats_as_its_teacher_said(visit):
    room = visit(seats=2)
    room.seat("Ada"), room.seat("Grace")
    full = room.join("Katherine")
    assert full.status_code == 409 and "2 seats" in full.json()["error"]


def test_no_cell_of_the_export_is_a_formula(visit):
    room = visit()
    names_ = ("=1+1", "@SUM(A1)", "+a", "-2", "Ада", "|calc", "＝1")
    for name in names_:
        room.seat(name)
    room.answer(room.seat("Ada"), NUMBER, "-0.5", attempt="=a")
    reply = room.get("results.csv", room.teacher)
    assert reply["Content-Type"] == "text/csv; charset=utf-8" and room.code in reply["Content-Disposition"]
    rows = list(csv.reader(io.StringIO(reply.content.decode("utf-8-sig"))))
    assert tuple(rows[0]) == results.COLUMNS and {len(row) for row in rows} == {len(results.COLUMNS)}
    cells = [cell for row in rows[1:] for cell in row]
    assert not [c for c in cells if c[:1] in "=@+|＝" and c] and "-2" in cells and "'=1+1" in cells and "Ада" in cells
    assert "-0.5" in cells, "a number stays a number"
    for nasty in ("\t=1", "\r=1", " =1", "'=1", '"=1', "＋1", "%1", "-1+2"):
        assert results.safe(nasty).startswith("'")


def test_codes_and_nicknames_are_what_people_read_and_type(visit):
    room = visit()
    assert len(room.code) == names.LENGTH and set(room.code) <= set(names.ALPHABET)
    typed = f" {room.code[:3].lower()}-{room.code[3:].lower()} "
    assert room.client.get(f"/api/rooms/{typed}").json()["code"] == room.code
    assert room.join("  Ada   Lovelace ").json()["name"] == "Ada Lovelace"
    assert room.join("ada lovelace").status_code == room.join("ＡＤＡ Lovelace").status_code == 409


SHOW_NOTHING = "\u034f\u115f\u1160\u17b4\u180b\u200b\u200d\u2060\u2800\u3164\ufe0f\uffa0\U000e0101\u00a0"


@pytest.mark.parametrize(
    ("typed", "place"), [("pmz-2rm", "PMZ2RM"), ("a/b", "AB"), ("//evil.com", "EVIL.COM"), ("/", "-")]
)
def test_what_is_typed_for_a_code_leads_to_a_room_of_this_server(client, typed, place):
    reply = client.get("/w", {"code": typed})
    assert (reply.status_code, reply["Location"]) == (302, f"/w/{place}")


@pytest.mark.parametrize("sign", SHOW_NOTHING, ids=lambda sign: f"U+{ord(sign):04X}")
def test_no_nickname_is_invisible_or_looks_like_another(visit, sign):
    room = visit()
    room.seat("Ada")
    assert room.join(sign).status_code == 422
    assert room.join(f"Ada{sign}").status_code in (409, 422) and room.join(f"{sign}A{sign}da").status_code in (409, 422)


@pytest.mark.parametrize("name", ["❤️", "Zoë", "Nguyễn", "지은", "กำธร", "שָׁלוֹם", "=1", "O'Hara"])
def test_a_nickname_may_be_of_any_script(visit, name):
    assert visit().join(name).json()["name"] == unicodedata.normalize("NFC", name)


def test_no_nickname_stands_over_its_neighbours(visit):
    reply = visit().join("A" + "\u0336" * 20)
    assert reply.status_code == 422 and "marks on one letter" in reply.json()["error"]


def test_a_seats_sessions_count_for_the_seat_and_the_room_and_not_for_the_address(visit, monkeypatch):
    room = visit(trials=8)
    ada, grace = room.seat("Ada"), room.seat("Grace")
    monkeypatch.setenv("UCUTLASS_QUEUE_PER_ADDRESS", "1")
    for seat in (ada, ada, grace):
        reply = room.post(room.path("sessions"), MODULE, seat)
        assert reply.status_code == 201, reply.content
    assert room.post(room.path("sessions"), MODULE, ada).status_code == 429, "two at once"
    rows = Session.objects.order_by("created")
    assert {s.origin for s in rows} == {runs.origin(room.code)}
    room_in_queue("the address")  # is not full
    assert room.client.post("/api/sessions", MODULE, content_type="application/json").status_code == 201
    one, two, three = rows[:3]
    shares = [Running._share(s) for s in (one, two, three)]
    assert len({share.room for share in shares}) == 1 and shares[0].address != shares[2].address
    assert shares[0].address == shares[1].address and shares[0].levels[1] != shares[2].levels[1]
    first = [s.seat_id is None for s in turns.in_turn(session_log.waiting("modelled:h200"))][:2]
    assert sorted(first) == [False, True], "the room and the address take turns"
    lease = session_log.claim("engine")
    session_log.append(lease, list(script.session()))
    assert room.results()["sessions"]["1"]["gap"] > 1 and len(room.results()["seats"][0]["sessions"]) == 2


def test_a_room_is_deleted_with_everything_when_its_teacher_says_so(visit):
    room = visit()
    room.post(room.path("sessions"), MODULE, room.seat("Ada"))
    session_log.append(session_log.claim("engine"), list(script.session()))
    assert room.client.delete(f"/api/rooms/{room.code}?confirm=no", headers=room.teacher).status_code == 422
    path = f"/api/rooms/{room.code}?confirm={room.code.lower()}"
    assert room.client.delete(path, headers=room.teacher).status_code == 204
    tables = (Room, Seat, RoomEvent, Session, SessionEvent)
    assert not any(table.objects.exists() for table in tables)
    assert room.client.get(f"/api/rooms/{room.code}").status_code == 404


def test_a_snapshot_of_a_seats_session_goes_with_the_room(visit):
    room, other = visit(), visit()
    copies = []
    for one in (room, other):
        started = one.post(one.path("sessions"), MODULE, one.seat("Ada")).json()
        session_log.append(session_log.claim("engine"), list(script.session()))
        control = {"X-Control-Token": started["control_token"]}
        copies.append(one.post(f"/api/sessions/{started['id']}/snapshots", {}, control).json()["id"])
        Session.objects.filter(id=started["id"]).update(pinned=True)
    Session.objects.filter(seat__room=room.code).delete()  # retention may have taken the original before
    path = f"/api/rooms/{room.code}?confirm={room.code}"
    assert room.client.delete(path, headers=room.teacher).status_code == 204
    assert [room.client.get(f"/api/sessions/{one}").status_code for one in copies] == [404, 200]


def test_the_owner_of_a_seats_session_cannot_raise_it_beyond_the_room(visit):
    room = visit(trials=2)
    started = room.post(room.path("sessions"), MODULE | {"trials": 2}, room.seat("Ada")).json()
    control = {"X-Control-Token": started["control_token"]}

    def order(kind, **data):
        return room.post(f"/api/sessions/{started['id']}/commands", {"kind": kind, "data": data}, control)

    more = order("budget", trials=3)
    assert more.status_code == 422 and "from 1 to 2 in its room" in more.json()["error"]
    assert order("budget", trials=1).status_code == order("budget", eps=0.5).status_code == 202
    program = "program p(x: f16[64, 64]) -> f16[64, 64] {\n  y = map(x) { epilogue relu(acc) }\n  return y\n}\n"
    replies = [order("try", program=program) for _ in range(3)]
    assert [reply.status_code for reply in replies] == [202, 202, 409]
    assert "as many as its room allows" in replies[2].json()["error"]


def test_the_teachers_link_is_in_no_log(visit):
    room = visit()
    token = room.room["teacher_token"]
    for line in (f'"GET /w/{room.code}/wall/{token} HTTP/1.1" 200', f"Not Found: /w/XXXXXX/wall/{token}"):
        assert token not in redact(line) and "/wall/" in redact(line)


def test_old_rooms_are_deleted_after_thirty_days(visit):
    old, homework, young = visit(), visit(), visit()
    then = timezone.now() - timedelta(days=31)
    Room.objects.filter(code__in=[old.code, homework.code]).update(created=then)
    Room.objects.filter(code=homework.code).update(deadline=timezone.now() - timedelta(days=2))
    retention.sweep(days=365)
    assert {r.code for r in Room.objects.all()} == {homework.code, young.code}


def test_lessons_of_ones_own_are_read_so_often_even_if_a_mistake_refuses_the_room(client, monkeypatch):
    monkeypatch.setattr(limits, "checks", limits.Limit(2, 60))
    replies = [
        client.post("/api/rooms", {"own": [f"# no lesson {n}"]}, content_type="application/json") for n in range(3)
    ]
    assert [reply.status_code for reply in replies] == [422, 422, 429]
    shipped = client.post("/api/rooms", {"lessons": ["roofline"]}, content_type="application/json")
    assert shipped.status_code == 201


def test_a_lesson_of_the_teachers_own_is_checked_and_worked_on(visit):
    text = """---
title: Mine
minutes: 2
summary: One question.
---

## predict one: A sum

```question choice
ask: What is 1 + 1?
option two: Two
option three: Three
right: "two" if 1 + 1 == 2 else "three"
because: So it is.
```
"""
    room = visit(lessons=[], own=[text])
    ada = room.seat("Ada")
    assert room.get("lessons/own-1", ada).json()["title"] == "Mine"
    assert room.answer(ada, "own-1/one", "two").json()["right"] is True
    broken = room.post("/api/rooms", {"own": [text.replace("right: ", "right: nothing(")]})
    assert broken.status_code == 422 and "line" in broken.json()["error"]


def test_a_log_is_folded_alike_in_one_go_and_piece_by_piece(visit):
    room = visit(paced=True)
    ada = room.seat("Ada")
    room.order("pace")
    room.answer(ada, STEP, "sum")
    room.order("reset", seat=1)
    kept_state = log.read(room.code, lambda s: (s.to_json(), s.seat_json(1)))
    log.forget(room.code)
    assert log.read(room.code, lambda s: (s.to_json(), s.seat_json(1))) == kept_state


def test_a_teacher_at_localhost_is_led_to_an_address_of_the_network(visit, monkeypatch):
    room = visit()
    wall = f"/w/{room.code}/wall"
    text = room.client.get("/w/new").content.decode()
    assert "make run" in text and "students can open" not in text
    hosts = "localhost,127.0.0.1,laptop,0.0.0.0,192.168.1.20,.example.org,class.example.org"
    monkeypatch.setenv("UCUTLASS_HOSTS", hosts)
    for path in ("/w/new", wall):
        text = room.client.get(path, SERVER_PORT="8000").content.decode()
        assert re.findall(r'href="(http://[^"]*/w/new)"', text) == [
            "http://192.168.1.20:8000/w/new",
            "http://class.example.org:8000/w/new",
        ]
        assert "make run" not in text


def test_a_step_takes_so_many_answers_and_says_so_for_good(visit, monkeypatch):
    """Not as a limit on speed (429), after which a page would send the answer again and again."""
    monkeypatch.setattr(rules, "MOST_TRIES", 2)
    room = visit()
    ada = room.seat("Ada")
    replies = [room.answer(ada, "roofline/which", value) for value in ("sum", "shorter", "longer")]
    assert [reply.status_code for reply in replies] == [201, 201, 409]
    assert replies[2].json()["error"] == "This step has 2 answers of yours."
