"""Who may do what: every route and every socket message, by stranger, viewer and owner (request_table.py)."""

import json
import re

import pytest
from django.urls import URLResolver, get_resolver

from engine.session import events
from playground.access import tokens
from playground.access.middleware import PERMISSIONS
from playground.live import log
from playground.live.viewers import MESSAGES
from playground.models import Session
from playground.sharing import snapshots
from tests.playground import request_table, script
from tests.playground.rooms import table as rooms
from tests.playground.websocket import Closed, WebSocket

pytestmark = pytest.mark.django_db
VISITORS = ("stranger", "viewer", "owner")
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "TRACE")
SOURCE = "class Model: ..."
MADE_UP = {
    "ID": "x" * 22,
    "SNAP": "z" * 36,
    "FOREIGN": "y" * 22,
    "TOKEN": "Yx" * 16,
    "BLOB": "0" * 64,
    "OWNER": "Wx" * 16,
    "KEY": "Kx" * 16,
    "ROW": "r" * 22,
}
SECRETS = ("TOKEN", "OWNER", "KEY")


def routes(resolver=None, before="") -> set[str]:
    """Every route of the app, as a text."""
    patterns = (resolver or get_resolver()).url_patterns
    inner = [routes(p, before + str(p.pattern)) for p in patterns if isinstance(p, URLResolver)]
    return {before + str(p.pattern) for p in patterns if not isinstance(p, URLResolver)}.union(*inner)


def test_every_route_has_a_row():
    assert {row.route for row in (*request_table.ROWS, *rooms.ROWS)} == routes()


def test_every_method_of_the_api_has_a_row(client):
    paths = client.get("/api/openapi.json").json()["paths"]
    described = {(method.upper(), path.lstrip("/")) for path, methods in paths.items() for method in methods}
    rows = (*request_table.ROWS, *rooms.ROWS)
    listed = {(row.method, row.route.replace("path:", "").replace("<", "{").replace(">", "}")) for row in rows}
    assert described <= listed and len(described) > 15


@pytest.fixture
def names(client, request):
    """{visitor: {ID, TOKEN, BLOB, OTHER, OWNER, KEY, ROW}} of a session with a text, started with an owner token; OTHER
    is a text of another session."""
    body = {"source": SOURCE}
    owner = client.post("/api/tokens", {}, content_type="application/json").json()
    bearer = {"Authorization": f"Bearer {owner['token']}"}
    session, other = (
        client.post("/api/sessions", body, content_type="application/json", headers=bearer).json() for _ in range(2)
    )
    name, texts = script.blob(SOURCE)
    elsewhere, others = script.blob("another session's")
    log.store_blobs(Session.objects.get(id=session["id"]), texts)
    log.store_blobs(Session.objects.get(id=other["id"]), others)
    real = {"ID": session["id"], "TOKEN": session["control_token"], "BLOB": name, "OTHER": elsewhere}
    row = getattr(request.node, "callspec", None)
    wanted = row is None or "SNAP" in row.params["row"].path  # a snapshot takes as long as all the rest
    snapshot = snapshot_of_another(session["control_token"], owner["id"]) if wanted else MADE_UP["SNAP"]
    real |= {"SNAP": snapshot, "FOREIGN": foreign()}
    real |= {"OWNER": owner["token"], "KEY": owner["key"], "ROW": owner["id"]}
    return {
        "stranger": {**MADE_UP, "OTHER": elsewhere},
        "viewer": real | {secret: MADE_UP[secret] for secret in SECRETS},
        "owner": real,
    }


def snapshot_of_another(token: str, owner: str) -> str:
    """The name of a snapshot without its source, whose original the same secrets controlled and is deleted."""
    session = Session.objects.create(
        title="finished", spec={"source": SOURCE}, control_hash=tokens.digest(token), owner_id=owner, state="running"
    )
    log.write(session, [(event, texts, 1.0) for event, texts in script.session(SOURCE)])
    session.save()
    snapshot = snapshots.take(session, source=False, transcript=False)
    session.delete()
    return snapshot.id


def foreign() -> str:
    """The view link of a session that somebody else started."""
    return Session.objects.create(title="another's", spec={"source": SOURCE}, control_hash=tokens.new()[1]).id


def filled(text: str, names: dict[str, str]) -> str:
    """`text` with every word of `names` replaced; at once, since a random token may contain one of the words."""
    return re.sub("|".join(names), lambda word: names[word[0]], text)


def path_of(row: request_table.Row) -> str:
    route = row.route.replace("<str:", "<")
    for parameter, word in (
        ("session_id", "ID"),
        ("token", "TOKEN"),
        ("sha256", "BLOB"),
        ("token_id", "ROW"),
        ("snapshot_id", "ID"),
    ):
        route = route.replace(f"<{parameter}>", word)
    return row.path or f"/{route}"


def ask(client, method, path, body=None, headers=None):
    return client.generic(method, path, body or "", content_type="application/json", headers=headers)


@pytest.mark.parametrize("row", request_table.ROWS, ids=lambda r: f"{r.method} {path_of(r)[:50]} {r.owner}")
def test_a_request_is_answered_as_the_table_says(client, names, row):
    for visitor in VISITORS:
        body = filled(json.dumps(row.body), names[visitor]) if row.body is not None else None
        headers = {name: filled(value, names[visitor]) for name, value in row.headers.items()}
        reply = ask(client, row.method, filled(path_of(row), names[visitor]), body, headers)
        assert reply.status_code == getattr(row, visitor), (visitor, reply.content[:300])
        assert reply["Permissions-Policy"] == PERMISSIONS and "camera=()" in PERMISSIONS
        assert reply["X-Content-Type-Options"] == "nosniff"
        text = reply.content.decode("utf-8", "replace")
        if reply.status_code >= 400 and path_of(row).startswith(("/api/", "/mcp")):
            assert set(reply.json()) >= {"error", "fix"}
        if visitor != "owner" and (row.method, row.route) != ("POST", "api/sessions"):
            assert not any(names["owner"][secret] in text for secret in SECRETS)
        if visitor == "stranger":
            assert names["owner"]["ID"] not in text


def test_every_other_method_is_refused(client, names):
    methods_of: dict[str, set[str]] = {}
    for row in request_table.ROWS:
        methods_of.setdefault(path_of(row).partition("?")[0], set()).add(row.method)
    for path, methods in methods_of.items():
        for method in set(METHODS) - methods:
            reply = ask(client, method, filled(path, names["owner"]))
            assert reply.status_code in (404, 405), (method, path, reply.status_code)
            assert reply.status_code == 405 or path == "/api/"


def test_a_text_is_read_through_a_session_alone(client, names):
    """The old address gave any text to whoever knew its name."""
    owner = names["owner"]
    assert client.get(f"/api/blobs/{owner['BLOB']}").status_code == 404
    path = f"/api/sessions/{owner['ID']}/blobs/{owner['BLOB']}"
    reply = client.get(path)
    assert reply.content.decode() == SOURCE and "private" in reply["Cache-Control"]
    assert client.get(path, HTTP_IF_NONE_MATCH=reply["ETag"]).status_code == 304
    other = filled("/api/sessions/ID/blobs/OTHER", owner)
    assert client.get(other, HTTP_IF_NONE_MATCH=f'"{owner["OTHER"]}"').status_code == 404
    assert owner["BLOB"] == events.blob_name(SOURCE)


# ---- sockets ----


def test_every_socket_message_and_route_is_in_the_table():
    from ucutlass_web.asgi import application

    named = {key for message, _ in request_table.MESSAGES if isinstance(message, dict) for key in message}
    assert named - {"kind", "control_token"} == MESSAGES
    router = application.application_mapping["websocket"].application
    served = {str(r.pattern): r.callback.__name__ for r in router.routes}
    assert served == request_table.SOCKETS


def closes(socket: WebSocket, seconds: float = 30) -> int:
    """The close code of a socket that was sent a message; 0 if it answers a valid one afterwards instead."""
    socket.socket.settimeout(seconds)
    try:
        while True:
            socket.receive()
    except Closed as e:
        return e.code


def test_a_message_is_answered_as_the_table_says(house):
    session = house.submit()
    for visitor in VISITORS:
        token = session["control_token"] if visitor == "owner" else MADE_UP["TOKEN"]
        if visitor == "stranger":
            with WebSocket(house.port, f"/ws/s/{MADE_UP['ID']}") as ws:
                assert closes(ws) == 4404
            continue
        for message, code in request_table.MESSAGES:
            with WebSocket(house.port, f"/ws/s/{session['id']}") as ws:
                raw = message if isinstance(message, bytes) else filled(json.dumps(message), {"TOKEN": token}).encode()
                ws.send(raw)
                if code == 0:
                    ws.send({"ack": -1})  # an open socket closes on this
                    code = 4400
                    assert ws.until("viewers")
                assert closes(ws) == code, message
        with WebSocket(house.port, f"/ws/s/{session['id']}") as ws:
            ws.send(b"\x00", opcode=2)
            assert closes(ws) == 4400, "binary"
    assert house.get(f"/api/sessions/{session['id']}")["state"] == "queued", "no message is an order"
