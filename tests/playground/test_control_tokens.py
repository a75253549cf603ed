"""The view link reads, the control link commands; neither can be guessed from the other, nor leaks."""

import json

import pytest

from playground.live import log
from playground.models import Command, Session

pytestmark = pytest.mark.django_db
MODULE = "class Model: ..."


@pytest.fixture
def session(client):
    reply = client.post("/api/sessions", {"source": MODULE, "title": "t"}, content_type="application/json")
    assert reply.status_code == 201
    return reply.json()


def say(client, session, kind="pause", token=None, header=None, data=None):
    body = {"kind": kind, "data": data or {}} | ({"control_token": token} if token else {})
    extra = {"HTTP_X_CONTROL_TOKEN": header} if header else {}
    return client.post(f"/api/sessions/{session['id']}/commands", body, content_type="application/json", **extra)


def test_the_token_is_not_kept(session):
    row = json.dumps(Session.objects.values().get(), default=str)
    assert session["control_token"] not in row
    assert session["id"] not in session["control_url"] and session["control_token"] not in session["view_url"]


def test_the_owner_commands_by_header_or_body(client, session):
    assert say(client, session, token=session["control_token"]).status_code == 202
    assert say(client, session, "resume", header=session["control_token"]).status_code == 202
    assert [c.kind for c in Command.objects.all()] == ["pause", "resume"]


@pytest.mark.parametrize("token", [None, "x", "0" * 32])
def test_nobody_else_does(client, session, token):
    reply = say(client, session, token=token)
    assert reply.status_code == 403 and "control" in reply.json()["error"]
    assert not Command.objects.exists()


def test_the_view_links_id_is_no_control_token(client, session):
    assert say(client, session, token=session["id"]).status_code == 403
    assert client.get(f"/c/{session['id']}").status_code == 404


def test_anothers_token_does_not_serve(client, session):
    other = client.post("/api/sessions", {"source": MODULE}, content_type="application/json").json()
    assert say(client, session, token=other["control_token"]).status_code == 403


def test_a_reader_never_receives_the_token(client, session):
    for path in (f"/s/{session['id']}", f"/api/sessions/{session['id']}", f"/s/{session['id']}/fork"):
        text = client.get(path).content.decode()
        assert session["control_token"] not in text and Session.objects.get().control_hash not in text


def test_the_owners_page_has_it_and_is_kept_by_nobody(client, session):
    reply = client.get(f"/c/{session['control_token']}")
    assert session["control_token"] in reply.content.decode()
    assert reply["Referrer-Policy"] == "no-referrer" and "no-store" in reply["Cache-Control"]


def test_stop_before_an_engine_took_it_ends_it_at_once(client, session):
    assert say(client, session, "stop", token=session["control_token"]).json()["ended"] is True
    row = Session.objects.get()
    assert row.state == "ended" and row.summary["end"]["state"] == "stopped"
    assert log.claim("engine") is None


def test_an_ended_session_takes_no_orders(client, session):
    say(client, session, "stop", token=session["control_token"])
    reply = say(client, session, "pause", token=session["control_token"])
    assert reply.status_code == 409 and "Fork" in reply.json()["fix"]


@pytest.mark.parametrize(
    ("kind", "data", "word"),
    [
        ("budget", {}, "budget"),
        ("budget", {"trials": 0}, "trials"),
        ("budget", {"trials": 10**6}, "400"),
        ("budget", {"eps": "x"}, "eps"),
        ("budget", {"cpu": 1}, "budget"),
        ("try", {}, "program"),
        ("try", {"program": "x" * 70_000}, "KiB"),
        ("explode", {}, "kind"),
    ],
)
def test_an_order_that_makes_no_sense_is_refused_with_the_fix(client, session, kind, data, word):
    reply = say(client, session, kind, token=session["control_token"], data=data)
    assert reply.status_code in (413, 422) and word in json.dumps(reply.json())
    assert reply.json()["fix"] and not Command.objects.exists()
