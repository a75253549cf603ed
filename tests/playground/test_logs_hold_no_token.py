"""A control token opens a session to whoever reads it, so no log of the web process may hold one.

A real daphne with its access log on stdout answers requests that carry a live token in every place where a request has
room for one; then the log is searched for it, decoded.
"""

import logging
import re
import socket
import time
from urllib.parse import unquote

import pytest
from django.core.exceptions import DisallowedHost

from playground.access import redaction, tokens
from tests.playground.conftest import House

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND")


def encoded(text: str) -> str:
    return "".join(f"%{ord(c):02X}" for c in text)


def paths(t: str) -> list[str]:
    """Addresses that hold the token, or all of it in pieces behind /c/."""
    control = [
        f"/c/{t}", f"/c/{t}/", f"/c/{t}.", f"/c/{t},", f"/c/{t})", f"/c/{t};a=b", f"/c/{t}xyz", f"/c/x{t}",
        f"/c/{t}%20x", f"/c/{t[:16]}%20{t[16:]}", f"/c/{t[:16]}%0A{t[16:]}",
        f"/c/{t[:16]}.{t[16:]}", f"/c/{t[:16]}/{t[16:]}",
        f"/c/{encoded(t)}", f"/c/{encoded(t).replace('%', '%25')}", f"/c/%22{t}", f"/%63/{t}", f"/c%2F{t}", f"/C/{t}",
        f"//c/{t}", f"/c//{t}", f"/c/{t}/export", f"/c/{t}?trial=3", f"/c/?{t}", f"/c/{t}%E2%80%8B", f"/c/{t}%00",
    ]  # fmt: skip
    elsewhere = [
        f"/{t}", f"/s/{t}", f"/s/{t}/fork", f"/s/{t}/export?trial=1", f"/x/c/{t}", f"/s/../c/{t}", f"/c{t}", f"/?t={t}",
        f"/gallery?control={t}", f"/language/{t}", f"/static/{t}.js", f"/api/sessions/{t}", f"/api/sessions/{t}/events",
        f"/api/sessions/{t}/commands", f"/api/sessions/{t}/blobs/{t}", f"/api/explain?word={t}", f"/api/{t}",
        f"/robots.txt/{t}", f"/%2e%2e/{encoded(t)}", f"/api/figures/{t}?trial=x", f"http://localhost/c/{t}",
        f"http://localhost/{t}",
    ]  # fmt: skip
    return control + elsewhere


def ask(port: int, method: str, path: str, headers: str = "", body: str = "") -> bytes:
    """One request on a socket of its own, exactly as written; the first bytes of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        host = "" if "host:" in headers.lower() else f"Host: localhost:{port}\r\n"
        head = f"{method} {path} HTTP/1.1\r\n{host}Connection: close\r\nContent-Length: {len(body)}\r\n{headers}\r\n"
        s.sendall((head + body).encode())
        return s.recv(64)


def upgrade(port: int, path: str) -> bytes:
    headers = "Upgrade: websocket\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=30) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: Upgrade\r\n{headers}\r\n".encode())
        return s.recv(64)


@pytest.fixture(scope="module", params=["1", "0"], ids=["debug", "plain"])
def house(request, tmp_path_factory):
    """Without debug there are no collected static files here, so a page breaks: its traceback is logged too."""
    built = House(tmp_path_factory.mktemp("house"), UCUTLASS_DEBUG=request.param)
    built.web(verbosity="1")
    yield built
    built.close()


def logged(house, seconds: float = 30) -> str:
    """The whole log, once nothing more is added to it."""
    path, size, end = house.var / "daphne.log", -1, time.monotonic() + seconds
    while size != (size := path.stat().st_size) and time.monotonic() < end:
        time.sleep(1)
    return path.read_text(errors="replace")


def shows(log: str, token: str) -> list[str]:
    """The lines that hold at least 12 characters of the token in a row, after decoding, in either case: Django writes
    hosts in lower case."""
    pieces = [token[i : i + 12].lower() for i in range(0, len(token) - 11, 4)]
    return [line for line in log.splitlines() if any(p in unquote(unquote(unquote(line))).lower() for p in pieces)]


def test_no_request_puts_the_token_into_the_log(house):
    session = house.submit()
    token = session["control_token"]
    asked = [(m, p) for p in paths(token) for m in METHODS[: 4 if p in paths(token)[:3] else 3]]
    asked += [(m, f"/c/{token}") for m in METHODS]
    for method, path in asked:
        assert ask(house.port, method, path).startswith(b"HTTP/1.1 ")
    for headers in (f"Host: {token}.example\r\n", f"Referer: /c/{token}\r\n", f"X-Control-Token: {token}\r\n"):
        ask(house.port, "GET", "/gallery", headers)
    ask(house.port, token, f"/{token}")
    body = f'{{"kind": "stop", "control_token": "{token}"'
    ask(house.port, "POST", f"/api/sessions/{session['id']}/commands", "Content-Type: application/json\r\n", body)
    log = logged(house)
    assert shows(log, token) == []
    entries = re.findall(r'^127\.0\.0\.1:\d+ - - \[[^]]*\] "(.*)" \d+ ', log, re.MULTILINE)
    assert len(entries) >= len(asked), "the access log is written, or this proves nothing"
    assert "GET /c/…" in entries and "PUT /c/…" in entries and "GET /gallery" in entries
    assert re.search(r"W django\.request: Method Not Allowed \(POST\): /c/…$", log, re.MULTILINE)


def test_no_owner_token_and_no_key_of_it_reaches_the_log(house):
    token = house.post("/api/tokens", {"label": "an agent"})
    json = "Content-Type: application/json\r\n"
    for secret in (token["token"], token["key"]):
        for headers in (
            f"Authorization: Bearer {secret}\r\n",
            f"X-Owner-Key: {secret}\r\n",
            f"Authorization: {secret}\r\n",
        ):
            for method, path in (
                ("POST", "/mcp"),
                ("GET", f"/mcp?token={secret}"),
                ("GET", "/api/tokens"),
                ("GET", "/mine"),
            ):
                ask(house.port, method, path, json + headers, "{}" if method == "POST" else "")
        ask(house.port, "DELETE", f"/api/tokens/{secret}", f"X-Owner-Key: {token['key']}\r\n")
    log = logged(house)
    assert shows(log, token["token"]) == [] and shows(log, token["key"]) == []
    assert '"POST /mcp"' in log


def test_no_socket_puts_the_token_into_the_log(house):
    session = house.submit()
    token = session["control_token"]
    urls = (
        f"/c/{token}",
        f"/ws/s/{token}",
        f"/ws/s/{session['id']}?token={token}",
        f"/ws/c/{token}/",
        f"/{encoded(token)}",
    )
    for url in (*urls, f"/ws/s/{session['id']}?after={token}"):
        upgrade(house.port, url)
    log = logged(house)
    assert shows(log, token) == []
    assert "WSCONNECTING /c/…" in log and f"WSCONNECT /ws/s/{session['id']}" in log


@pytest.mark.parametrize(
    "line",
    [
        "Not Found: /nowhere",
        "starting session ThdFqgkB1VrmaVv3w6Xxng",
        'File "/srv/c/view.py", line 3, in convert_exception_to_response',
        "blob 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
        "UCUTLASS_SESSIONS_PER_HOUR='many' is not a whole number",
    ],
)
def test_what_is_no_token_stays(line):
    assert redaction.redact(line) == line


def test_every_token_that_is_made_is_recognised():
    for _ in range(2000):
        token, _ = tokens.new()
        assert len(token) == redaction.TOKEN and redaction.redact(f"a {token}.") == "a …."


def test_a_traceback_is_redacted_too():
    token, _ = tokens.new()
    try:
        raise ValueError(f"no session at /c/{token}")
    except ValueError as e:
        record = logging.LogRecord("x", logging.ERROR, __file__, 1, "it %s", ("broke",), (type(e), e, e.__traceback__))
    text = redaction.Formatter("{message}", style="{").format(record)
    assert "it broke" in text and "ValueError: no session at /c/…" in text and token not in text


def test_a_host_that_is_refused_is_one_line_of_the_log():
    try:
        raise DisallowedHost("Invalid HTTP_HOST header: 'x'.")
    except DisallowedHost as e:
        exc_info = type(e), e, e.__traceback__
        record = logging.LogRecord("django.security.DisallowedHost", logging.ERROR, __file__, 1, str(e), (), exc_info)
    assert redaction.Formatter("{message}", style="{").format(record) == "Invalid HTTP_HOST header: …"
