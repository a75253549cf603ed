"""Whatever happens to an engine, its session goes on: no gap, no trial twice, no word of the owner lost."""

import contextlib
import signal
import sqlite3
import time

import pytest

from playground.live.running import MOST_LOSSES
from tests.playground.conftest import House
from tests.playground.websocket import WebSocket


@pytest.fixture
def house(tmp_path):
    built = House(tmp_path)
    built.web()
    yield built
    built.close()


def follow(house, session_id):
    with WebSocket(house.port, f"/ws/s/{session_id}", timeout=90) as socket:
        return socket.events()


def whole(log, trials):
    """The log has no gap, ends once, and each trial was proposed and judged exactly once."""
    assert [e["seq"] for e in log] == list(range(1, len(log) + 1))
    kinds = [e["kind"] for e in log]
    assert kinds.count("session.ended") == 1 and kinds[-1] == "session.ended"
    for kind in ("trial.proposed", "trial.judged"):
        assert [e["data"]["trial"] for e in log if e["kind"] == kind] == list(range(1, trials + 1))


def test_kill_9_in_the_middle_and_another_finishes(house):
    session = house.submit("pace 0.1 trials 8")
    first = house.engine()
    with WebSocket(house.port, f"/ws/s/{session['id']}", timeout=90) as viewer:
        house.wait(session["id"], lambda s: s["last_seq"] >= 5)
        first.kill()
        first.wait()
        house.engine()
        log = viewer.events()  # the viewer that was there all along
    whole(log, 8)
    assert [e["kind"] for e in log].count("resumed") == 1
    assert log == follow(house, session["id"]), "and one that comes later sees the same"


def test_sigterm_gives_the_session_back_at_once(house):
    session = house.submit("pace 0.2 trials 4")
    first = house.engine()
    house.wait(session["id"], lambda s: s["last_seq"] >= 3)
    first.send_signal(signal.SIGTERM)
    assert first.wait(60) == 0
    state = house.get(f"/api/sessions/{session['id']}")
    assert state["state"] == "queued" and "No engine is running" in state["text"]
    assert house.get("/api/engines")["engines"] == []
    house.engine()
    whole(follow(house, session["id"]), 4)


def test_an_engine_that_is_frozen_past_its_lease_writes_nothing_when_it_wakes(house):
    session = house.submit("pace 0.1 trials 12")
    frozen = house.engine()
    house.wait(session["id"], lambda s: s["last_seq"] >= 5)
    house.freeze(frozen)
    house.engine()
    house.wait(session["id"], lambda s: s["last_seq"] >= 12)
    frozen.send_signal(signal.SIGCONT)
    whole(follow(house, session["id"]), 12)
    assert frozen.poll() is None, "it let go of the session and waits for the next"
    again = house.submit("pace 0 trials 1")
    house.wait(again["id"], lambda s: s["state"] == "ended")


def test_the_web_process_may_be_killed_as_well(house):
    session = house.submit("pace 0.1 trials 6")
    house.engine()
    with WebSocket(house.port, f"/ws/s/{session['id']}") as viewer:
        seen = viewer.until("events")["events"]
        house.daphne.kill()
        house.daphne.wait()
    house.web()
    with WebSocket(house.port, f"/ws/s/{session['id']}?after={seen[-1]['seq']}") as viewer:
        seen += viewer.events()
    whole(seen, 6)


def test_a_session_that_breaks_the_engine_ends_with_a_reason_and_the_next_one_runs(house):
    broken, fine = house.submit("crash here"), house.submit("pace 0 trials 2")
    house.engine()
    ended = house.wait(broken["id"], lambda s: s["state"] == "ended")
    assert ended["summary"]["end"]["state"] == "failed" and "RuntimeError: here" in ended["summary"]["end"]["reason"]
    house.wait(fine["id"], lambda s: s["state"] == "ended")


def test_a_session_that_kills_every_engine_is_given_up(house):
    """The engines between the first two and the last two are written into the database: each start takes seconds."""
    session, seen = house.submit("pace 30"), {None}

    def taken_anew(s):
        return s["engine"] and s["engine"]["busy"] and s["engine"]["id"] not in seen

    def losses(change="losses"):
        with contextlib.closing(sqlite3.connect(house.var / "playground.sqlite3", timeout=30)) as database, database:
            database.execute(f"UPDATE playground_session SET losses = {change}")
            return database.execute("SELECT losses FROM playground_session").fetchone()[0]

    for number in range(4):
        engine = house.engine()
        state = house.wait(session["id"], taken_anew)
        seen.add(state["engine"]["id"])
        assert losses() == (number if number < 2 else MOST_LOSSES - 4 + number)
        engine.kill()
        engine.wait()
        if number == 1:
            losses(f"{MOST_LOSSES - 3}")
        time.sleep(1.1)  # past the lease
    house.engine()
    ended = house.wait(session["id"], lambda s: s["state"] == "ended")
    assert "lost 8 times in a row at the same step" in ended["summary"]["end"]["reason"]


def test_the_owners_stop_reaches_the_engine(house):
    session = house.submit("pace 0.1 trials 200", trials=200)
    house.engine()
    house.wait(session["id"], lambda s: s["last_seq"] >= 3)
    house.command(session, "stop")
    log = follow(house, session["id"])
    assert [e["kind"] for e in log[-2:]] == ["controlled", "session.ended"]


def test_a_word_that_came_while_no_engine_ran_is_not_lost(house):
    session = house.submit("pace 0.1 trials 200", trials=200)
    first = house.engine()
    house.wait(session["id"], lambda s: s["last_seq"] >= 3)
    first.kill()
    first.wait()
    house.post(f"/api/sessions/{session['id']}/commands", {"kind": "stop", "control_token": session["control_token"]})
    house.engine()
    assert follow(house, session["id"])[-1]["data"]["state"] == "stopped"
