"""The whole app on a real GPU: daphne and the engine there, sessions followed over the WebSocket to their end.

With OUT set, what was seen is written to OUT/app.json: the record behind the README's figures.
"""

import json
import os
import signal
import time
from pathlib import Path

import pytest

from tests.gpu.conftest import serving
from tests.playground.conftest import ROOT, House
from tests.playground.websocket import Closed, WebSocket

pytestmark = pytest.mark.gpu
PROBLEM = (ROOT / "engine/problems/linear_scale_leaky.py").read_text()
FIRST_TRIAL = 10.0  # seconds from a warm engine taking the session to its first measured trial


@pytest.fixture(scope="module")
def app(cuda, tmp_path_factory):
    with serving(House(tmp_path_factory.mktemp("app"), UCUTLASS_LEASE_SECONDS="3", UCUTLASS_COMPILERS="")) as house:
        time.sleep(20)  # its workers import torch and quack: what "a warm engine" means
        yield house


def follow(app, session_id, *, hang_up_after=None, seen=lambda event: None, seconds=400):
    """Every event in order, over one socket or, where it hangs up after so many events, over two."""
    events, deadline = [], time.monotonic() + seconds
    while True:
        after = events[-1]["seq"] if events else 0
        with WebSocket(app.port, f"/ws/s/{session_id}?after={after}", timeout=60) as socket:
            while True:
                assert time.monotonic() < deadline, [e["kind"] for e in events]
                try:
                    message = socket.receive()
                except (Closed, TimeoutError):
                    break
                for event in message.get("events", ()):
                    events.append(event)
                    seen(event)
                    if event["kind"] == "session.ended":
                        return events
                if message.get("events"):
                    socket.send({"ack": events[-1]["seq"]})
                if hang_up_after and len(events) >= hang_up_after:
                    hang_up_after = None
                    break


def submit(app, source=PROBLEM, **fields):
    session = app.submit("linear, times two, leaky", source=source, source_kind="module", **fields)
    assert "id" in session, session
    return session["id"]


def whole(events):
    """No gap in seq, every trial once and ended once, every time measured."""
    assert [e["seq"] for e in events] == list(range(1, len(events) + 1))
    for kind in ("trial.proposed", "trial.measured"):
        trials = [e["data"]["trial"] for e in events if e["kind"] == kind]
        assert len(trials) == len(set(trials))
    ended = [e["data"]["trial"] for e in events if e["kind"] in ("trial.judged", "trial.failed")]
    assert sorted(ended) == sorted({e["data"]["trial"] for e in events if e["kind"] == "trial.proposed"})
    times = [e["data"]["time"] for e in events if "time" in e["data"]]
    assert times and all(t["kind"] == "measured" for t in times)
    return events[-1]["data"]


def record(name, value):
    if os.environ.get("OUT"):
        path = Path(os.environ["OUT"]) / "app.json"
        results = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps(results | {name: value}, indent=1))


def test_a_session_is_followed_to_its_end_with_measured_times(app):
    events = follow(app, submit(app, classes=["f16"], trials=6), hang_up_after=12)
    end = whole(events)
    assert end["state"] == "done" and end["best"]
    first = next(e["t"] for e in events if e["kind"] == "trial.measured") - events[0]["t"]
    trial = {e["data"]["trial"]: e["t"] for e in events if e["kind"] == "trial.proposed"}
    lasted = [e["t"] - trial[e["data"]["trial"]] for e in events if e["kind"] == "trial.judged"]
    record("followed", {"end": end, "first_trial_s": first, "trials_s": lasted, "log": events})
    assert first < FIRST_TRIAL


def test_a_killed_engine_and_a_killed_worker_cost_no_trial(app):
    killed = []

    def seen(event):
        wanted = ("manage.py", "engine") if len(killed) == 0 else ("engine.evaluate.candidate.worker_main",)
        due = event["kind"] in ("trial.judged", "trial.generated") and event["data"]["trial"] == (2, 4)[len(killed)]
        if len(killed) < 2 and due:
            for pid in below(app.up.pid):
                if all(word in command_line(pid) for word in wanted):
                    os.kill(pid, signal.SIGKILL)
                    killed.append(wanted)
                    return

    def safely(event):
        if len(killed) < 2:
            seen(event)

    events = follow(app, submit(app, classes=["f16"], trials=6), seen=safely)
    end = whole(events)
    assert len(killed) == 2 and end["state"] == "done"
    assert any(e["kind"] == "resumed" for e in events)
    record("killed", {"end": end, "log": events})


def below(pid):
    """Every process that descends from this one."""
    try:
        children = [int(c) for c in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []
    return children + [p for c in children for p in below(c)]


def command_line(pid):
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []
