"""Headers that keep other sites out, and addresses that are keys in."""

import socket

import pytest

from playground.models import Session

pytestmark = pytest.mark.django_db


@pytest.fixture
def session():
    spec = {"source": "class Model: ...", "source_kind": "module"}
    return Session.objects.create(title="<b>t</b>", spec=spec)


def policy(reply) -> dict[str, str]:
    parts = (p.strip().split(" ", 1) for p in reply["Content-Security-Policy"].split(";"))
    return {p[0]: p[1] for p in parts}


def test_scripts_come_from_here_alone(client, session):
    for path in ("/", f"/s/{session.id}", f"/s/{session.id}/fork", "/gallery", "/nowhere", "/api/docs"):
        directives = policy(client.get(path))
        assert directives["script-src"] == "'self'" and directives["default-src"] == "'none'"
        assert directives["frame-ancestors"] == "'none'" and directives["connect-src"] == "'self'"
        assert "unsafe-inline" not in directives["style-src"]


def test_no_page_brings_its_own_script_or_names_another_host(client, session):
    import re

    for path in ("/", f"/s/{session.id}", f"/s/{session.id}/fork", "/gallery", "/nowhere"):
        html = client.get(path).content.decode()
        for attributes, body in re.findall(r"<script([^>]*)>(.*?)</script>", html, re.DOTALL):
            assert "src=" in attributes or "application/json" in attributes or not body.strip()
        loads = re.sub(r"<a [^>]*>", "", html)  # a link to a paper loads nothing before somebody follows it
        assert not re.search(r'(?:src|href)="(?:https?:)?//(?!testserver)', loads)
        assert " on" + "click=" not in html


def test_what_a_visitor_wrote_is_escaped(client, session):
    for path in (f"/s/{session.id}", f"/s/{session.id}/fork", "/gallery"):
        assert "<b>t</b>" not in client.get(path).content.decode()


def test_a_page_whose_address_is_a_key_is_kept_and_told_by_nobody(client, session):
    reply = client.get(f"/s/{session.id}")
    assert reply["Referrer-Policy"] == "no-referrer"
    assert "no-store" in reply["Cache-Control"] and reply["X-Robots-Tag"] == "noindex"
    assert "Disallow: /s/" in client.get("/robots.txt").content.decode()


@pytest.mark.parametrize(
    "headers",
    [{"HTTP_ORIGIN": "https://elsewhere.example"}, {"HTTP_SEC_FETCH_SITE": "cross-site"}, {"HTTP_ORIGIN": "null"}],
)
def test_another_sites_page_cannot_start_work_here(client, headers):
    reply = client.post("/api/sessions", {"source": "x"}, content_type="application/json", **headers)
    assert reply.status_code == 403 and not Session.objects.exists()


def test_our_own_page_and_programs_can(client):
    own = {"HTTP_ORIGIN": "http://testserver", "HTTP_SEC_FETCH_SITE": "same-origin"}
    assert client.post("/api/sessions", {"source": "x"}, content_type="application/json", **own).status_code == 201
    assert client.post("/api/sessions", {"source": "x"}, content_type="application/json").status_code == 201


def test_an_unknown_host_is_refused(client):
    reply = client.get("/healthz", HTTP_HOST="rebound.example")
    assert reply.status_code == 400


def test_unknown_addresses_are_answered_kindly(client):
    for path in ("/s/nobody", "/c/nothing", "/s/nobody/fork", "/nowhere"):
        reply = client.get(path)
        assert reply.status_code == 404 and "text/html" in reply["Content-Type"]
    for path in ("/api/sessions/nobody", "/api/sessions/nobody/blobs/00", "/api/nowhere", "/api/figures/nobody"):
        reply = client.get(path)
        assert reply.status_code == 404 and set(reply.json()) >= {"error", "fix"}


def test_a_method_that_an_address_does_not_take_is_told_like_everything_else(client):
    for method, path in (("get", "/api/sessions"), ("delete", "/api/sessions"), ("post", "/api/examples")):
        reply = getattr(client, method)(path)
        assert (
            reply.status_code == 405
            and set(reply.json()) == {"error", "fix"}
            and reply["Allow"] in reply.json()["error"]
        )


def test_a_method_that_a_page_does_not_take_gets_a_page(client):
    reply = client.delete("/gallery")
    assert reply.status_code == 405 and "text/html" in reply["Content-Type"]
    assert f"This address takes {reply['Allow']}, not DELETE." in reply.content.decode()


def test_the_api_describes_itself_without_a_cdn(client):
    paths = client.get("/api/openapi.json").json()["paths"]
    assert "/api/sessions" in paths and "/api/sessions/{session_id}/events" in paths
    assert "https://" not in client.get("/api/docs").content.decode()


def answer(house, line: str, *headers: str) -> bytes:
    """The whole answer to a request as it goes over the wire."""
    with socket.create_connection(("127.0.0.1", house.port), timeout=60) as wire:
        lines = [f"{line} HTTP/1.1", "Host: localhost", *headers, "Connection: close", "", ""]
        wire.sendall("\r\n".join(lines).encode("latin-1"))
        return wire.makefile("rb").read()


@pytest.mark.parametrize("line", ["OPTIONS *", "CONNECT evil.example:443", "GET healthz", "GET ?a"])
def test_an_address_without_a_path_is_refused_with_its_cause(house, line):
    reply = answer(house, line)
    assert b" 400 " in reply.splitlines()[0] and b'"error"' in reply and b'"fix"' in reply


@pytest.mark.parametrize("prefix", ["//evil.example", "/gallery", "\xff"])
def test_a_visitor_does_not_move_the_pages(house, prefix):
    reply = answer(house, "GET /gallery", f"Daphne-Root-Path: {prefix}")
    assert b" 200 " in reply.splitlines()[0] and b"evil.example" not in reply and b'href="/gallery"' in reply
