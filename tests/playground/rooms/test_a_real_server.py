"""A room on a real daphne: nothing is lost when a process is killed, the wall hears of every answer, and a terminal
follows it."""

import io
import json
import re
import signal
import threading
import time
import urllib.request
from pathlib import Path

import pytest

from engine.__main__ import main
from engine.remote import client as remote
from engine.remote import follow
from tests.playground.rooms import table
from tests.playground.rooms.test_who_may_do_what import MADE_UP
from tests.playground.test_request_table import closes
from tests.playground.websocket import WebSocket

STEP = "roofline/which"
SEATS, ANSWERS = 6, 12


@pytest.fixture
def room(house):
    return house.post("/api/rooms", {"title": "t", "lessons": ["roofline"], "trials": 8})


def seat(house, room, name: str) -> dict[str, str]:
    joined = house.post(f"/api/rooms/{room['code']}/seats", {"name": name})
    return {"X-Seat-Token": joined["token"]}


def send(house, room, headers, step, value, attempt) -> dict | None:
    """The reply to an answer; None if the server was away."""
    body = {"step": step, "answer": value, "attempt": attempt}
    try:
        return house.post(f"/api/rooms/{room['code']}/answers", body, **headers)
    except (OSError, json.JSONDecodeError):
        return None


def log_of(house, room) -> list[dict]:
    path = f"http://127.0.0.1:{house.port}/api/rooms/{room['code']}/events?limit=2000"
    request = urllib.request.Request(path, headers={"X-Teacher-Token": room["teacher_token"]})
    with urllib.request.urlopen(request, timeout=30) as reply:
        return json.load(reply)["events"]


def test_a_killed_web_process_loses_no_answer_and_doubles_none(house, room):
    seats = [seat(house, room, f"seat {n}") for n in range(SEATS)]
    acknowledged: list[str] = []
    asked: list[str] = []
    many = threading.Semaphore(0)

    def work(number: int) -> None:
        for n in range(ANSWERS):
            attempt = f"{number}-{n}"
            asked.append(attempt)
            while True:  # as the page does: until the server has it
                reply = send(house, room, seats[number], STEP, ("sum", "longer")[n % 2], attempt)
                if reply is not None and "tries" in reply:
                    break
                time.sleep(0.05)
            acknowledged.append(attempt)
            many.release()

    workers = [threading.Thread(target=work, args=(n,)) for n in range(SEATS)]
    for worker in workers:
        worker.start()
    for _ in range(20):
        assert many.acquire(timeout=120)
    house.daphne.send_signal(signal.SIGKILL)
    house.daphne.wait(30)
    before = set(acknowledged)
    house.web()
    stored = {e["data"]["attempt"] for e in log_of(house, room) if e["kind"] == "seat.answered"}
    assert before <= stored
    for worker in workers:
        worker.join(300)
    rows = [e["data"]["attempt"] for e in log_of(house, room) if e["kind"] == "seat.answered"]
    assert sorted(rows) == sorted(asked) and len(rows) == SEATS * ANSWERS
    assert [e["seq"] for e in log_of(house, room)] == list(range(1, 2 + SEATS + len(rows)))


@pytest.fixture
def places(house):
    """{visitor: (code, token)} in one room of a real server."""
    room = house.post("/api/rooms", {"title": "t", "lessons": ["roofline"]})
    seat = house.post(f"/api/rooms/{room['code']}/seats", {"name": "Ada"})
    return {
        "stranger": ("WWWWWW", MADE_UP), "guest": (room["code"], MADE_UP), "student": (room["code"], seat["token"]),
        "teacher": (room["code"], room["teacher_token"]),
    }  # fmt: skip


def test_a_message_is_answered_as_the_table_says(house, places):
    for messages, codes in table.MESSAGES:
        for visitor, code in zip(table.VISITORS, codes, strict=True):
            room, token = places[visitor]
            with WebSocket(house.port, f"/ws/w/{room}") as ws:
                for message in messages:
                    text = message if isinstance(message, bytes) else json.dumps(message).encode()
                    ws.send(text.replace(b"TOKEN", token.encode()))
                if code == 0:
                    assert ws.until("events")["events"][0]["kind"] == "room.opened"
                    ws.send({"ack": -1})  # an open socket closes on this
                assert closes(ws) == (code or 4400), (visitor, messages)
    text = house.text(f"/w/{places['teacher'][0]}/wall")
    assert "Ada" not in text and places["teacher"][1] not in text


def test_the_wall_moves_with_every_answer_and_a_reset_seat_is_shut_out(house, room):
    ada, grace = seat(house, room, "Ada"), seat(house, room, "Grace")
    path = f"/ws/w/{room['code']}"
    with WebSocket(house.port, path) as page, WebSocket(house.port, path) as wall:
        page.send({"token": ada["X-Seat-Token"], "after": 0})
        assert [e["kind"] for e in page.until("events")["events"]] == ["room.opened", "seat.joined"]
        wall.send({"token": room["teacher_token"]})
        assert wall.until("online")["online"] == [1]
        assert len(wall.until("events")["events"]) == 3
        send(house, room, grace, STEP, "sum", "a")
        (event,) = wall.until("events")["events"]
        assert (event["kind"], event["seat"], event["data"]["right"]) == ("seat.answered", 2, False)
        headers = {"X-Teacher-Token": room["teacher_token"]}
        house.post(f"/api/rooms/{room['code']}/commands", {"kind": "pause"}, **headers)
        (event,) = page.until("events")["events"]
        assert event["kind"] == "room.paused", "and nothing of Grace before it"
        reset = {"kind": "reset", "data": {"seat": 1}}
        house.post(f"/api/rooms/{room['code']}/commands", reset, **headers)
        assert closes(page) == 4403


def test_a_session_of_a_seat_outlives_its_engine_and_moves_the_wall(house, room):
    ada = seat(house, room, "Ada")
    with WebSocket(house.port, f"/ws/w/{room['code']}") as wall:
        wall.send({"token": room["teacher_token"]})
        session = house.post(f"/api/rooms/{room['code']}/sessions", {"source": "class Model: ...", "trials": 4}, **ada)
        first = house.engine()
        house.wait(session["id"], lambda s: s["last_seq"] >= 2)
        first.send_signal(signal.SIGKILL)
        first.wait(30)
        house.engine()
        house.wait(session["id"], lambda s: s["state"] == "ended", 120)
        while (row := wall.until("sessions")["sessions"].get("1", {})).get("state") != "ended":
            pass
        assert row["session"] == session["id"] and row["gap"] > 0
    log = house.get(f"/api/sessions/{session['id']}/events?limit=500")["events"]
    assert [e["seq"] for e in log] == list(range(1, len(log) + 1)) and log[-1]["kind"] == "session.ended"


def test_a_terminal_submits_a_session_and_watches_it_and_a_room(house, room, tmp_path, capsys):
    if not house.get("/healthz")["engines"]:  # that of the test before, unless this one runs alone
        house.engine()
    module = tmp_path / "module.py"
    module.write_text("class Model: ...")
    url = f"http://127.0.0.1:{house.port}"
    assert main(["submit", str(module), "--to", url, "--trials", "4", "--class", "f16"]) == 0
    out = capsys.readouterr().out
    link = re.search(r"watch it at (\S+)", out)[1]
    assert "/s/" in link and "trial 1" in out and "done" in out
    assert main(["watch", link]) == 0
    assert "trial 1" in capsys.readouterr().out
    # a room needs its teacher's token, from a file that nobody else can read
    seat(house, room, "Ada")
    place = f"{url}/w/{room['code']}"
    assert main(["watch", place]) == 2 and "teacher" in capsys.readouterr().err
    token = Path(tmp_path / "token")
    token.write_text(room["teacher_token"])
    token.chmod(0o644)
    assert main(["watch", place, "--token-file", str(token)]) == 2 and "chmod" in capsys.readouterr().err

    class Enough(io.StringIO):
        def write(self, text: str) -> int:
            if "Ada joined" in text:
                raise KeyboardInterrupt
            return super().write(text)

    screen = Enough()
    with pytest.raises(KeyboardInterrupt):
        follow.watch(place, room["teacher_token"], screen, 0.05)
    assert "steps, all open" in screen.getvalue()
    with pytest.raises(remote.RemoteError, match="teacher's token"):
        follow.watch(place, "Zx" * 16, screen, 0.05)
    for wrong in (f"{url}/", f"{url}/c/secret", "ftp://x/s/1", f"{url}/w/new"):
        with pytest.raises(remote.RemoteError):
            follow.watch(wrong, "x")


def test_a_terminal_says_why_a_session_waits(house):
    for process in house.processes:
        if process is not house.daphne:
            process.kill()
            process.wait(30)
    while house.get("/healthz")["engines"]:
        time.sleep(0.1)

    class Enough(io.StringIO):
        def write(self, text: str) -> int:
            if "No engine is running" in text:
                raise BrokenPipeError
            return super().write(text)

    with pytest.raises(BrokenPipeError):
        follow.submit(f"http://127.0.0.1:{house.port}", {"source": "class Model: ...", "trials": 1}, "", Enough(), 0.05)


def test_every_kind_of_event_of_a_room_is_a_line():
    from playground.rooms.events import KINDS

    samples = {"title": "t", "paced": False, "lessons": [], "steps": [], "step": "a/b", "text": "hello", "number": None}
    samples |= {"name": "Ada", "keep": False, "answer": 1, "right": True, "session": "x"}
    for kind, cls in KINDS.items():
        data = {name: samples[name] for name in cls.__dataclass_fields__ if name in samples}
        assert follow.room_line({"kind": kind, "seat": 1, "data": data}, {1: "Ada"}), kind
    assert follow.room_line({"kind": "of a newer server", "seat": None, "data": {}}, {}) == ""
