"""A stopped session's processes end in two seconds (six on a busy machine), and nobody else's."""

import time
from pathlib import Path

import pytest

from engine.sandbox import tree
from tests.playground.conftest import House
from tests.playground.test_end_to_end import MODULE
from tests.playground.test_sessions_survive_kills import descendants

SESSIONS = 3


@pytest.fixture
def house(tmp_path):
    """An engine on a busy machine may renew a lease of one second too late, and its session would begin again."""
    built = House(tmp_path, UCUTLASS_LEASE_SECONDS="20")
    built.web()
    yield built
    built.close()


def confined(engine: int) -> set[int]:
    """The processes that run strangers' modules."""
    pids = set()
    for pid in descendants(engine):
        try:
            inside = tree.inner_pid(pid) not in (None, pid)
            if inside and b"engine.sandbox." in Path(f"/proc/{pid}/cmdline").read_bytes():
                pids.add(pid)
        except OSError:
            continue
    return pids


def test_a_stop_ends_the_processes_of_its_session_alone(house):
    fields = {"classes": ["f16"], "trials": 200, "eps": 0.0, "window": 400}
    engine = house.start("manage.py", "engine", "--device", "modelled:h200", name="engine").pid
    sessions = [
        house.submit(source=MODULE.replace("(128, 256)", f"({128 * n}, 256)"), **fields) for n in range(1, 1 + SESSIONS)
    ]

    def trials(session) -> int:
        return house.get(f"/api/sessions/{session['id']}")["summary"]["trials"]

    for session in sessions:
        house.wait(session["id"], lambda s: s["summary"] and s["summary"]["trials"] > 0, 300)
    stopped, *others = sessions
    for session in others:  # so that they start no process meanwhile
        house.command(session, "pause")
        house.wait(session["id"], lambda s: s["summary"]["state"] == "paused", 120)
    time.sleep(1.0)
    before, began = confined(engine), time.monotonic()
    house.command(stopped, "stop")
    house.wait(stopped["id"], lambda s: s["state"] == "ended", 60)
    while not before - confined(engine):
        assert time.monotonic() - began < 6.0, "two seconds, and three times as long where others work"
        time.sleep(0.02)
    gone, after = before - confined(engine), {s["id"]: trials(s) for s in others}
    assert len(gone) < len(before), "the paused sessions keep theirs"
    for session in others:
        house.command(session, "resume")
        house.wait(session["id"], lambda s: s["summary"]["trials"] > after[s["id"]], 180)
    assert before - gone <= confined(engine)
