"""The view link reads, the control link commands; neither can be guessed from the other, nor leaks."""

import json

import pytest

from playground.live import log
from playground.models import Command, Session

pytestmark = pytest.mark.django_db
MODULE = "class Model: ..."


@pytest.fixture
def made(client):
    reply = client.post("/api/sessions", {"source": MODULE, "title": "t"}, content_type="application/json")
    assert reply.status_code == 201
    return reply.json()


def say(client, made, kind="pause", token=None, header=None, data=None):
    body = {"kind": kind, "data": data or {}} | ({"control_token": token} if token else {})
    extra = {"HTTP_X_CONTROL_TOKEN": header} if header else {}
    return client.post(f"/api/sessions/{made['id']}/commands", body, content_type="application/json", **extra)


def test_the_token_is_not_kept(made):
    kept = json.dumps(Session.objects.values().get(), default=str)
    assert made["control_token"] not in kept
    assert made["id"] not in made["control_url"] and made["control_token"] not in made["view_url"]


def test_the_owner_commands_by_header_or_body(client, made):
    assert say(client, made, token=made["control_token"]).status_code == 202
    assert say(client, made, "resume", header=made["control_token"]).status_code == 202
    assert [c.kind for c in Command.objects.all()] == ["pause", "resume"]


@pytest.mark.parametrize("token", [None, "x", "0" * 32])
def test_nobody_else_does(client, made, token):
    reply = say(client, made, token=token)
    assert reply.status_code == 403 and "control" in reply.json()["error"]
    assert not Command.objects.exists()


def test_the_view_links_id_is_no_control_token(client, made):
    assert say(client, made, token=made["id"]).status_code == 403
    assert client.get(f"/c/{made['id']}").status_code == 404


def test_anothers_token_does_not_serve(client, made):
    other = client.post("/api/sessions", {"source": MODULE}, content_type="application/json").json()
    assert say(client, made, token=other["control_token"]).status_code == 403


def test_a_reader_never_receives_the_token(client, made):
    for path in (f"/s/{made['id']}", f"/api/sessions/{made['id']}", f"/s/{made['id']}/fork"):
        text = client.get(path).content.decode()
        assert made["control_token"] not in text and Session.objects.get().control_hash not in text


def test_the_owners_page_has_it_and_is_kept_by_nobody(client, made):
    reply = client.get(f"/c/{made['control_token']}")
    assert made["control_token"] in reply.content.decode()
    assert reply["Referrer-Policy"] == "no-referrer" and "no-store" in reply["Cache-Control"]


def test_stop_before_an_engine_took_it_ends_it_at_once(client, made):
    assert say(client, made, "stop", token=made["control_token"]).json()["ended"] is True
    session = Session.objects.get()
    assert session.state == "ended" and session.summary["end"]["state"] == "stopped"
    assert log.claim("engine") is None


def test_an_ended_session_takes_no_orders(client, made):
    say(client, made, "stop", token=made["control_token"])
    reply = say(client, made, "pause", token=made["control_token"])
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
def test_an_order_that_makes_no_sense_is_refused_with_the_fix(client, made, kind, data, word):
    reply = say(client, made, kind, token=made["control_token"], data=data)
    assert reply.status_code in (413, 422) and word in json.dumps(reply.json())
    assert reply.json()["fix"] and not Command.objects.exists()
