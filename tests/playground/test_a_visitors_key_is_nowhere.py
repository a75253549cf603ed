"""A key that a visitor types is in no file, log, event, export, answer or error, whatever becomes of its session.

A real daphne and real engines, and an endpoint that repeats the key wherever it can: in its replies, in the name of its
model and in its errors. Sessions run to their ends, fail, are stopped, and lose their engine in the middle of a turn.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import re
import signal
import sqlite3
import urllib.error
import urllib.parse
import zlib
from pathlib import Path

import pytest

pytest.importorskip("torch")

from tests.engine.llm.server import ModelServer, wait_for
from tests.playground import public_world
from tests.playground.conftest import ROOT, House

KEY = "sk-Visitor+Typed/7Q2zR9mX4kW8vB1nL6-canary"
FORMS = tuple(  # whole, in part (logs hide long words alone), and encoded
    form.encode() for form in (
        KEY, KEY[::-1], KEY[:12], KEY[-10:], urllib.parse.quote(KEY, safe=""), KEY.encode().hex(),
        base64.b64encode(KEY.encode()).decode().rstrip("=")[:-1], base64.b64encode(b"x" + KEY.encode()).decode()[4:-4],
        base64.b64encode(b"xx" + KEY.encode()).decode()[4:-4],
    )
)  # fmt: skip
PROGRAM = "program p(x: f16[64, 64], w: f16[64, 64]) -> f16[64, 64] { y = gemm(x, w.T) { } return y }"
CANARY = "canary of the title"


def holds(data: bytes) -> bool:
    return any(form in data for form in FORMS)


def key_of(exchange) -> str:
    return exchange.headers["Authorization"].removeprefix("Bearer ")


def repeats(x) -> None:
    """A reply that holds the key, whole and in pieces."""
    x.head()
    x.chunk({"content": f"Your key is {key_of(x)}. In pieces: "})
    x.text(key_of(x), piece=3)
    x.chunk({"reasoning_content": key_of(x)})
    named = {"id": key_of(x), "object": "chat.completion.chunk", "created": 1, "model": f"theirs {key_of(x)}"}
    x.raw(f"data: {json.dumps({**named, 'choices': []})}\n\n".encode())
    x.raw(b'data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"note": "')
    x.raw(key_of(x).encode() + b'"}}\n\ndata: [DONE]\n\n')


def refuses(x) -> None:
    key = key_of(x)
    x.head(401, "application/json", WWW_Authenticate=f'Bearer error="{key}"')
    masked = f"{key[:12]}***{key[-10:]}"
    x.raw(json.dumps({"error": {"message": f"Incorrect API key: {key}, {masked}", "code": key, "param": key}}).encode())


def writes_slowly(x) -> None:
    x.head()
    while not x.closing.wait(0.1):
        x.text(f"still writing with {key_of(x)} ")


@pytest.fixture(scope="module")
def house(tmp_path_factory):
    top = tmp_path_factory.mktemp("visitor")
    var = top / "var"
    for folder in (var, var / "tmp", var / "home"):
        folder.mkdir()
    tls, authority = public_world.certified(top / "certificates")
    with ModelServer(repeats, tls) as server:
        listed = f"{public_world.endpoint(server.port)},https://localhost:{server.port}/v1"
        house = House(
            var, UCUTLASS_ENDPOINTS=listed, SSL_CERT_FILE=str(authority), UCUTLASS_LEASE_SECONDS="3",
            TMPDIR=str(var / "tmp"), HOME=str(var / "home"), UCUTLASS_CACHE=str(var / "cache"),
        )  # fmt: skip
        house.server = server
        house.web(verbosity="1")
        house.worker = engine(house)
        yield house
        house.close()


def engine(house):
    house.worker = house.start(
        "-m", "tests.playground.public_world", str(house.server.port), "--device", "modelled:h200",
        name=f"engine{len(house.processes)}",
    )  # fmt: skip
    return house.worker


def submit(house, **fields):
    """A session that asks the visitor's model once or more."""
    base_url = public_world.endpoint(house.server.port)
    own = {"strategy": "chain", "endpoint": base_url, "model": "theirs", "options": {"attempts": 1}, "trials": 1}
    program = {"source": PROGRAM, "source_kind": "program", "classes": ["f16"], "device": "modelled:h200"}
    session = house.submit(title=CANARY, **{**program, **own, **fields})
    assert "id" in session, session
    return session


def log_of(house, session):
    return house.get(f"/api/sessions/{session['id']}/events?limit=2000")["events"]


def waits_for_key(house, session, claims=1):
    """The events of the requests for a key, once there are `claims` of them."""
    wanted = lambda: [e["data"] for e in log_of(house, session) if e["kind"] == "key.wanted"]  # noqa: E731
    wait_for(lambda: len(wanted()) >= claims or house.worker.poll() is not None, 90)
    assert len(wanted()) == claims, house.lines()
    return wanted()


def type_key(house, session, key=KEY):
    path, headers = f"/api/sessions/{session['id']}/key", {"X-Control-Token": session["control_token"]}
    return house.post(path, {"key": key}, **headers)


def ended(house, session):
    end = house.wait(session["id"], lambda s: s["state"] == "ended", 120)["summary"]["end"]
    return end


def asked(house, number):
    wait_for(lambda: len(house.server.requests) > number, 90)


def everywhere(house) -> dict[str, bytes]:
    """Every place where a key could be: the files of both processes, the texts of the database, and all answers."""
    places = {str(p): p.read_bytes() for p in house.var.rglob("*") if p.is_file()}
    # Closed each time: to read the file beside an open connection would drop that one's locks.
    with contextlib.closing(sqlite3.connect(f"file:{house.var}/playground.sqlite3?mode=ro", uri=True)) as database:
        rows = database.execute("SELECT sha256, data FROM playground_blob").fetchall()
        places |= {f"blob {name}": zlib.decompress(data) for name, data in rows}
        tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type='table'")]
        places |= {f"table {t}": repr(database.execute(f"SELECT * FROM {t}").fetchall()).encode() for t in tables}
    for session in house.started:
        for path in ("/api/sessions/ID", "/api/sessions/ID/events?limit=2000", "/api/figures/ID", "/s/ID", "/s/ID/fork",
                     "/s/ID/export", f"/c/{session['control_token']}", "/api/engines", "/"):  # fmt: skip
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{house.port}{path.replace('ID', session['id'])}") as a:
                    places[f"{session['id']} {path}"] = a.read()
            except urllib.error.HTTPError as e:
                places[f"{session['id']} {path}"] = e.read()
    for path in list(places):
        if places[path][:2] == b"\x1f\x8b":
            places[f"{path} unpacked"] = gzip.decompress(places[path])
    return places


def nowhere(house) -> None:
    """The key is in none of these places; what the visitor typed beside it is, so the search sees them."""
    places = everywhere(house)
    assert [place for place, data in places.items() if holds(data)] == []
    assert sum(CANARY.encode() in data for data in places.values()) >= 3
    assert any("/daphne.log" in place for place in places) and any(".sqlite3-wal" in place for place in places)
    assert not [p for p in (*ROOT.glob("core*"), *house.var.rglob("core*")) if re.fullmatch(r"core(\.\d+)?", p.name)]


def core_limit(pid: int) -> list[str]:
    (line,) = [row for row in Path(f"/proc/{pid}/limits").read_text().splitlines() if "core file size" in row]
    return line.split()[4:6]


def test_a_session_runs_to_its_end(house):
    session = submit(house)
    (wanted,) = waits_for_key(house, session)
    assert wanted["endpoint"] == public_world.endpoint(house.server.port)
    shown = house.get(f"/api/sessions/{session['id']}")
    assert "Waiting for the key of models.example" in shown["summary"]["progress"] and shown["state"] == "running"
    assert "error" in type_key(house, session, key=f"{KEY} with words"), "refused, and not repeated"
    assert type_key(house, session) == {"endpoint": wanted["endpoint"]}
    nowhere(house)
    assert ended(house, session)["state"] == "done"
    assert {key_of(r) for r in house.server.requests} == {KEY} and {r.body["model"] for r in house.server.requests} == {
        "theirs"
    }
    kinds = [e["kind"] for e in log_of(house, session)]
    assert kinds.count("turn.answered") >= 1 and kinds.count("key.received") == 1
    texts = [data for place, data in everywhere(house).items() if place.startswith("blob")]
    assert any(b"Your key is [key]." in text for text in texts), "the reply is there without the key"
    nowhere(house)


def test_both_processes_write_no_core_file(house):
    assert core_limit(house.daphne.pid) == core_limit(house.worker.pid) == ["0", "0"]


def test_a_refused_key_ends_the_session_in_one_sentence(house):
    house.server.play(refuses)
    session = submit(house)
    waits_for_key(house, session)
    type_key(house, session)
    end = ended(house, session)
    assert "models.example does not accept the key (status 401). Fork it" in end["reason"]
    events = json.dumps(log_of(house, session))
    assert "key_refused" in events and KEY[:12] not in events and KEY[-10:] not in events
    nowhere(house)


def in_a_slow_turn(house):
    """A session that was given its key and whose model is writing."""
    number = len(house.server.requests)
    house.server.play(writes_slowly)
    session = submit(house)
    waits_for_key(house, session)
    type_key(house, session)
    asked(house, number)
    return session


def test_a_stop_ends_a_wait_and_a_turn(house):
    waits = submit(house)
    waits_for_key(house, waits)
    house.command(waits, "stop")
    assert ended(house, waits)["state"] == "stopped"
    session = in_a_slow_turn(house)
    house.command(session, "stop")
    assert ended(house, session)["state"] == "stopped"
    assert type_key(house, session)["error"] == "This session has ended."
    nowhere(house)


@pytest.mark.parametrize("deadly", [signal.SIGKILL, signal.SIGABRT], ids=lambda s: s.name)
def test_a_killed_engine_leaves_no_key_and_the_next_one_asks_again(house, deadly):
    session = in_a_slow_turn(house)
    wait_for(lambda: any(e["kind"] == "turn.said" for e in log_of(house, session)), 30)
    nowhere(house)
    os.kill(house.worker.pid, deadly)
    house.worker.wait(60)
    nowhere(house)
    engine(house)
    first, second = waits_for_key(house, session, claims=2)
    assert second["again"] and second["public_key"] != first["public_key"] and "typed again" in second["text"]
    number = len(house.server.requests)
    type_key(house, session)
    assert ended(house, session)["state"] == "done" and len(house.server.requests) > number
    nowhere(house)


def test_an_endpoint_that_leads_to_this_machine_is_refused(house):
    number = len(house.server.requests)
    session = submit(house, endpoint=f"https://localhost:{house.server.port}/v1")
    end = ended(house, session)
    assert (end["state"], end["code"]) == ("refused", "endpoint") and "private network" in end["reason"]
    assert "key.wanted" not in [e["kind"] for e in log_of(house, session)]
    assert len(house.server.requests) == number
    error = house.submit(source=PROGRAM, source_kind="program", strategy="chain", endpoint="https://a.example/v1",
                         model="m")["error"]  # fmt: skip
    house.started.pop()
    assert error == "endpoint: this address is not allowed here."
