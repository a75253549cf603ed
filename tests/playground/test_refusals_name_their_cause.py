"""No request and no state of the machine gives a 500: each is a 4xx or a 503 with {error, fix}, by family."""

import contextlib
import errno
import json
import os
import socket
import sqlite3
from io import BytesIO
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
from daphne.http_protocol import WebRequest
from django.db import connection

from playground.access import faults, intake
from playground.language import examples
from playground.models import Session
from tests.playground.websocket import Closed, WebSocket

pytestmark = pytest.mark.django_db
JSON = "application/json"
NO_TEXT = ('"\\ud800"', '"a\\u0000b"', '["\\udfff"]', '{"\\ud800": 1}')
FIELDS = {
    "/api/sessions": ("source", "title", "source_kind", "device", "strategy", "options", "classes"),
    "/api/check": ("text",), "/api/format": ("text",), "/api/resolve": ("text",), "/api/compile": ("text",),
    "/api/export": ("text",), "/api/complete": ("text",), "/api/hover": ("text",),
    "/api/tries/check": ("text", "language", "entry"), "/api/words": ("text",),
    "/api/sessions/ID/commands": ("kind", "data", "control_token"),
}  # fmt: skip


@pytest.fixture
def session(client):
    return client.post("/api/sessions", {"source": "class Model: ..."}, content_type=JSON).json()


def refused(reply, *statuses):
    assert reply.status_code in statuses, (reply.status_code, reply.content[:300])
    assert set(reply.json()) >= {"error", "fix"} and reply.json()["error"] and reply.json()["fix"]
    return reply.json()


@pytest.mark.parametrize(("path", "field"), [(p, f) for p, fields in FIELDS.items() for f in fields])
def test_what_is_not_text_is_refused_in_every_field(client, session, path, field):
    path = path.replace("ID", session["id"])
    for value in NO_TEXT:
        reply = client.post(path, f'{{"{field}": {value}}}', content_type=JSON)
        assert "not text" in refused(reply, 422)["error"]


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"\xff\xfe", 400, "not UTF-8: byte 0"),
        ('{"text": "x"}'.encode("utf-16"), 400, "not UTF-8"),
        (b'{"text": ', 400, "not JSON"),
        (b"[" * 100_000, 400, "nested deeper than 16"),
        (b'{"text": ' + b"[" * 40 + b"]" * 40 + b"}", 422, "text: nested deeper than 16"),
        (b'{"text": ' + b"9" * 5000 + b"}", 400, "too many digits"),
        (b'{"text": "", "line": ' + b"9" * 400 + b"}", 422, "line: the number is out of range"),
        (b'{"text": NaN}', 422, "NaN"),
        (b'{"text": 1e999}', 422, "Infinity"),
    ],
)
def test_a_body_of_a_wrong_form_is_refused_before_a_field_is_read(client, session, body, status, words):
    for path in FIELDS:
        reply = client.post(path.replace("ID", session["id"]), body, content_type=JSON)
        assert words in refused(reply, status)["error"]


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_body_of_another_content_type_is_refused_with_the_header_to_send(client, kind):
    reply = client.generic("POST", "/api/check", '{"text": "x"}', content_type=kind)
    assert "Content-Type: application/json" in refused(reply, 415)["fix"]


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/s/%00", 400), ("/api/sessions/a%00b", 400), ("/language/%00", 400), ("/static/%00.js", 400),
        ("/gallery?x=%00", 400), ("/api/explain?word=a%00", 400), ("/s/" + "x" * 300, 414), ("/" + "x/" * 800, 414),
        ("/static/" + "x" * 300, 414), ("/api/sessions/" + "x" * 300, 414), ("/gallery?" + "x" * 5000, 414),
        ("/api/explain?" + "&" * 2000, 400), ("/api/explain?word=" + "x" * 65, 422),
    ],
)  # fmt: skip
def test_an_address_that_cannot_be_read_is_refused(client, path, status):
    reply = client.get(path)
    assert reply.status_code == status
    if path.startswith("/api/"):
        refused(reply, status)


@pytest.mark.parametrize("number", ["-1", "1e9", "9" * 30, "9" * 4000, "x", "%D9%A3", ""])
def test_a_number_in_a_query_is_any_text(client, session, number):
    for path in ("/api/sessions/{}/events?after=", "/api/sessions/{}/events?limit=", "/api/figures/{}?trial="):
        assert client.get(path.format(session["id"]) + number).status_code in (200, 422)
    assert client.get(f"/s/{session['id']}/export?trial={number}").status_code == 409
    assert client.get(f"/s/{session['id']}/fork?trial={number}").status_code == 200


@pytest.mark.parametrize("origin", ["http://[", "http://a:b:c", "null", "", "http://testserver:99999999", "\xe9", "//"])
def test_an_origin_that_cannot_be_read_is_another_sites(client, origin):
    reply = client.post("/api/check", {"text": "x"}, content_type=JSON, HTTP_ORIGIN=origin)
    refused(reply, 403)


@pytest.mark.parametrize("host", ["[", "a b", "evil.example", "testserver:x", "testserver@evil.example", "\xe9"])
def test_a_host_that_is_not_ours_is_refused(client, host):
    for path in ("/", "/api/examples"):
        assert client.get(path, HTTP_HOST=host).status_code == 400
    own = {"HTTP_ORIGIN": f"http://{host}", "HTTP_HOST": host}
    assert client.post("/api/check", {"text": "x"}, content_type=JSON, **own).status_code == 400


# ---- the machine ----


@pytest.fixture
def impatient(transactional_db):
    """The test's connection waits for a lock for 50 ms, not for 20 s."""
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA busy_timeout=50")
    yield
    connection.close()


def test_a_locked_database_is_503_with_the_cause(client, session, impatient):
    other = sqlite3.connect(connection.settings_dict["NAME"], isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    try:
        body = {"source": "class Model: ..."}
        reply = client.post("/api/sessions", body, content_type=JSON)
        assert "busy" in refused(reply, 503)["error"] and int(reply["Retry-After"]) >= 1
        command = {"kind": "pause", "control_token": session["control_token"]}
        reply = client.post(f"/api/sessions/{session['id']}/commands", command, content_type=JSON)
        refused(reply, 503)
        for path in ("/healthz", "/", "/gallery", f"/s/{session['id']}", f"/api/sessions/{session['id']}"):
            assert client.get(path).status_code == 200, "reading goes on"
    finally:
        other.execute("ROLLBACK")
        other.close()
    assert client.post("/api/sessions", body, content_type=JSON).status_code == 201


def test_a_full_disk_is_503_with_the_cause(client, session, impatient):
    with connection.cursor() as cursor:
        cursor.execute("VACUUM")  # other tests leave free pages
        pages = cursor.execute("PRAGMA page_count").fetchone()[0]
        cursor.execute(f"PRAGMA max_page_count={pages}")  # SQLite then fails as on a full disk
    body = {"source": "#" * 60_000}
    replies = [client.post("/api/sessions", body, content_type=JSON) for _ in range(4)]
    assert "full" in refused(replies[-1], 503)["error"] and int(replies[-1]["Retry-After"]) >= 1
    assert client.get(f"/s/{session['id']}").status_code == 200
    with connection.cursor() as cursor:
        cursor.execute("PRAGMA max_page_count=1073741823")
    assert client.post("/api/sessions", body, content_type=JSON).status_code == 201


def test_a_page_names_the_cause_too(client, impatient, monkeypatch):
    def full():
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(examples, "all_examples", full)
    reply = client.get("/")
    assert reply.status_code == 503 and "disk is full" in reply.content.decode() and reply["Retry-After"]
    refused(client.get("/api/examples"), 503)


def test_a_mistake_of_ours_is_no_fault_of_the_machine():
    assert faults.refusal_of(ValueError("x")) is None and faults.refusal_of(OSError(errno.EPERM, "x")) is None


# ---- what daphne takes in ----


def raw(port: int, head: str, body: bytes = b"") -> bytes:
    """The answer to a request as written; the body is sent in pieces until the server closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(head.encode())
        with contextlib.suppress(OSError):
            for at in range(0, len(body), 1 << 16):
                s.sendall(body[at : at + (1 << 16)])
        with contextlib.suppress(ConnectionResetError):
            return s.recv(4096)
    return b""


def test_a_line_that_is_too_long_is_answered(house):
    reply = raw(house.port, f"GET /gallery?{'x' * 20_000} HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 414 ") and b'"fix"' in reply
    reply = raw(house.port, f"GET / HTTP/1.1\r\nHost: localhost\r\nX-A: {'x' * 20_000}\r\n\r\n")
    assert reply.startswith((b"HTTP/1.1 414 ", b"HTTP/1.1 400 "))


def test_a_content_type_of_semicolons_is_answered_before_it_is_parsed(house):
    head = f"POST /api/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json{';' * 15_000}\r\n"
    reply = raw(house.port, f"{head}Content-Length: 2\r\n\r\n", b"{}")
    assert reply.startswith(b"HTTP/1.1 400 ") and b"Content-Type" in reply and b'"fix"' in reply


@pytest.mark.parametrize(
    ("kind", "part"),
    [
        ("application/x-www-form-urlencoded", b"a=1&"),
        ("multipart/form-data; boundary=x", b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n'),
    ],
)
def test_a_form_of_many_fields_is_answered(house, kind, part):
    body = part * (1_900_000 // len(part))
    head = f"POST /api/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: {kind}\r\nConnection: close\r\n"
    reply = raw(house.port, f"{head}Content-Length: {len(body)}\r\n\r\n", body)
    assert reply[9:12] in (b"400", b"413", b"415", b"422")


def test_no_form_is_parsed_in_the_thread_that_serves_everybody():
    """Twisted takes seconds for 2 MB, and each request has a switch."""
    intake.bound_requests()
    server = SimpleNamespace(root_path="", protocol_connected=lambda *_: None)
    channel = Mock(factory=SimpleNamespace(server=server))
    request = WebRequest(channel)
    request.requestHeaders.addRawHeader(b"Content-Type", b"application/x-www-form-urlencoded")
    request.content, request.process = BytesIO(b"a=1"), lambda: None
    request.content.seek(3)
    request.requestReceived(b"POST", b"/api/check?b=2", b"HTTP/1.1")
    assert request.args == {b"b": [b"2"]}


def test_a_body_of_a_gigabyte_is_refused_before_it_is_sent(house):
    head = "POST /api/check HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    reply = raw(house.port, f"{head}Content-Length: {1 << 30}\r\n\r\n")
    assert reply.startswith(b"HTTP/1.1 413 ") and b'"fix"' in reply
    chunk = b"ffff\r\n" + b"x" * 0xFFFF + b"\r\n"
    reply = raw(house.port, f"{head}Transfer-Encoding: chunked\r\n\r\n", chunk * 64)
    assert reply.startswith(b"HTTP/1.1 413 ") or reply == b""  # the system may drop an answer to unread data
    files = house.daphne.pid and [os.readlink(f"/proc/{house.daphne.pid}/fd/{n}")
                                  for n in os.listdir(f"/proc/{house.daphne.pid}/fd")]  # fmt: skip
    assert not [name for name in files if name.startswith("/tmp/") and str(house.var) not in name]
    reply = raw(house.port, f"{head}Content-Length: 1000000\r\nConnection: close\r\n\r\n", b"x" * 1_000_000)
    assert reply.startswith(b"HTTP/1.1 413 "), "a body under 2 MiB is read and answered by the API"
    assert house.post("/api/check", {"text": "x"})["ok"] is False, "others are answered"


# ---- sockets ----


def handshake(house, path, **more) -> int:
    """The close code of a socket, 0 if it stays open, or the status of a refused handshake."""
    try:
        with WebSocket(house.port, path, **more) as ws:
            ws.receive()
            return 0
    except Closed as e:
        return e.code
    except AssertionError as e:
        return int(str(e).split("HTTP/1.1 ")[1][:3])


def test_a_socket_checks_host_and_origin_and_address_like_a_request(house):
    path = f"/ws/s/{house.submit()['id']}"
    own = f"Origin: http://localhost:{house.port}\r\n"
    assert handshake(house, path) == 0 and handshake(house, path, headers=own) == 0
    for origin in (
        "https://evil.example",
        "null",
        "http://[",
        "http://localhost:1",
        "http://localhost",
        "\xe9",
        "file://",
    ):
        assert handshake(house, path, headers=f"Origin: {origin}\r\n") in (400, 403), origin
    for host in ("evil.example", "rebound", "127.0.0.1.evil.example"):
        assert handshake(house, path, host=host) == 403
        assert handshake(house, path, host=host, headers=f"Origin: http://{host}:{house.port}\r\n") == 403
    assert handshake(house, "/ws/s/a%00b") == 403 and handshake(house, "/ws/s/" + "x" * 300) == 403
    assert handshake(house, f"{path}?after=" + "9" * 5000) == 403
    for wrong in ("/nowhere", "/", "/ws/s/nobody"):
        with WebSocket(house.port, wrong) as ws, pytest.raises(Closed) as closed:
            while True:
                ws.receive()
        assert closed.value.code == 4404
    assert json.loads(house.text("/healthz"))["ok"] and Session.objects.count() == 0
