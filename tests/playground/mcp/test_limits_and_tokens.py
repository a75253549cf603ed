"""Owner tokens are stored as hashes, belong to their key and are counted by the limits; answers are bounded."""

import contextlib
import importlib
import json
import threading
import types
from contextlib import AsyncExitStack

import pytest

from playground.access import limits, owners, redaction, tokens
from playground.access.answers import Refused
from playground.access.limits import Limit
from playground.access.owners import Caller
from playground.mcp import calls, views
from playground.mcp.tool import MOST, MOST_TEXT, Answer, Call, cut
from playground.models import OwnerToken, Session
from playground.retention import sweep

MODULE = "class Model: ..."
LISTING = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}


def post(client, path, body, **headers):
    return client.post(path, body, content_type="application/json", headers=headers)


def made(client, **headers):
    return post(client, "/api/tokens", {"label": "my\n ag\x1b\u202eent"}, **headers).json()


def bearer(token):
    return {"Authorization": f"Bearer {token}"}


@pytest.mark.django_db
def test_no_token_and_no_key_is_stored_and_both_are_hidden_in_logs(client):
    one = made(client)
    row = json.dumps(OwnerToken.objects.values().get(), default=str)
    assert one["label"] == "my ag ent" and one["token"] not in row and one["key"] not in row
    for secret in (one["token"], one["key"]):
        assert redaction.redact(f"/mcp?t={secret} {secret}") == "/mcp?t=… …"
    listed = client.get("/api/tokens", headers={"X-Owner-Key": one["key"]}).content.decode()
    assert one["token"] not in listed and one["key"] not in listed


@pytest.mark.django_db
def test_a_key_has_its_tokens_and_no_others_and_a_session_names_its_token(client):
    one = made(client)
    two = made(client, **{"X-Owner-Key": one["key"]})
    other = made(client)
    assert two["key"] == one["key"] != other["key"]
    session = post(client, "/api/sessions", {"source": MODULE}, **bearer(two["token"])).json()
    rows = client.get("/api/tokens", headers={"X-Owner-Key": one["key"]}).json()["tokens"]
    assert [r["id"] for r in rows] == [two["id"], one["id"]]
    assert (
        [s["id"] for s in rows[0]["sessions"]] == [session["id"]] and rows[0]["last_used"] and not rows[1]["last_used"]
    )
    path = f"/api/sessions/{session['id']}/commands"
    for headers, status in (
        (bearer(one["token"]), 403),
        (bearer(two["token"]), 202),
        ({"X-Control-Token": one["key"]}, 202),
    ):
        assert post(client, path, {"kind": "pause"}, **headers).status_code == status
    assert client.delete(f"/api/tokens/{other['id']}", headers={"X-Owner-Key": one["key"]}).status_code == 404


@pytest.mark.django_db
def test_a_revoked_token_opens_nothing_and_goes_with_its_last_session(client):
    one = made(client)
    session = post(client, "/api/sessions", {"source": MODULE}, **bearer(one["token"])).json()
    assert client.delete(f"/api/tokens/{one['id']}", headers=bearer(one["token"])).status_code == 204
    path = f"/api/sessions/{session['id']}/commands"
    for where, body in (("/mcp", LISTING), ("/api/sessions", {"source": MODULE}), (path, {"kind": "pause"})):
        reply = post(client, where, body, **bearer(one["token"]))
        assert (
            reply.status_code == 401
            and reply["WWW-Authenticate"].startswith("Bearer")
            and "/mine" in reply.json()["fix"]
        )
    assert post(client, path, {"kind": "stop"}, **{"X-Control-Token": one["key"]}).status_code == 202
    sweep()
    assert OwnerToken.objects.count() == 1
    Session.objects.all().delete()
    sweep()
    assert OwnerToken.objects.count() == 0


@pytest.mark.django_db
def test_a_key_has_a_bounded_number_of_tokens(client, monkeypatch):
    monkeypatch.setattr(owners, "MOST", 2)
    one = made(client)
    key = {"X-Owner-Key": one["key"]}
    made(client, **key)
    reply = post(client, "/api/tokens", {}, **key)
    assert reply.status_code == 409 and "Revoke" in reply.json()["fix"]
    client.delete(f"/api/tokens/{one['id']}", headers=key)
    assert post(client, "/api/tokens", {}, **key).status_code == 201


@pytest.mark.django_db
@pytest.mark.parametrize("own_address", [False, True])
def test_calls_are_counted_for_the_address_and_for_the_token(client, monkeypatch, own_address):
    monkeypatch.setattr(limits, "agents", Limit(3, 60))
    token = made(client)["token"]

    def call(number):
        more = {"REMOTE_ADDR": f"10.0.0.{number}"} if own_address else {}
        headers = {"Authorization": f"Bearer {token}"} if own_address else {}
        return client.post("/mcp", LISTING, content_type="application/json", headers=headers, **more)

    assert [call(n).status_code for n in range(3)] == [200] * 3
    reply = call(3)
    assert reply.status_code == 429 and 0 < int(reply["Retry-After"]) <= 60
    assert reply.json()["error"] == "Too many calls from this address."


@pytest.mark.django_db
def test_sessions_of_a_token_are_counted_whatever_the_address(client, monkeypatch):
    monkeypatch.setattr(limits, "sessions", Limit(2, 60))
    token = made(client)["token"]

    def start(number):
        params = {"name": "start_session", "arguments": {"module": MODULE}}
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        headers = {"Authorization": f"Bearer {token}"}
        reply = client.post(
            "/mcp", body, content_type="application/json", headers=headers, REMOTE_ADDR=f"10.1.0.{number}"
        )
        return json.loads(reply.json()["result"]["content"][0]["text"])

    assert all("session" in start(n) for n in range(2))
    refused = start(2)
    assert refused["status"] == 429 and refused["retry_after_s"] > 0 and "Try again in" in refused["fix"]


@pytest.mark.django_db
def test_who_guesses_tokens_is_slowed(client, monkeypatch):
    monkeypatch.setattr(limits, "guesses", limits.Guesses(3, 10))
    codes = [post(client, "/mcp", LISTING, **bearer(tokens.new()[0])).status_code for _ in range(4)]
    assert codes == [401, 401, 401, 429]


def test_an_answer_has_a_bounded_size_and_says_what_is_cut():
    long = "x" * 100_000
    blocks = Answer({"a": [long]}, [("one", long), ("two", long)]).blocks()
    assert sum(map(len, blocks)) <= MOST + 200 and "cut" in blocks[0]
    (text,) = Answer({}, [("one", long)]).blocks()
    assert len(text) <= MOST_TEXT + 100 and text.endswith("of 100,000 characters")
    assert cut("short") == "short"


def test_numbers_have_five_digits_and_empty_fields_are_left_out():
    (block,) = Answer(
        {"ms": 0.123456789, "none": None, "inner": {"empty": "", "zero": 0, "rows": [{"x": None}]}}
    ).blocks()
    assert json.loads(block) == {"ms": 0.12346, "inner": {"zero": 0, "rows": [{}]}}


@pytest.mark.django_db
def test_a_session_that_no_agent_uses_any_more_ends_and_says_why(client, monkeypatch):
    from engine.session.runner import run
    from engine.session.spec import SessionSpec
    from playground.live.mailbox import Control, Mailbox
    from tests.engine.counting import PROGRAM, CountingDevice

    session = Session.objects.create(title="t", spec={})
    control = Control(session.id, Mailbox(), lambda: False, patience=0.2)
    spec = SessionSpec(title="t", source=PROGRAM, source_kind="program", strategy="agent", classes=("f16",))
    log = [e.event for e in run(spec, device=CountingDevice(), control=control)]
    end = log[-1]
    assert (end.state, end.code, end.reason) == ("stopped", "idle", "No candidate came for 0 minutes.")
    patient = Control(session.id, Mailbox(), lambda: False)
    assert patient.patience is None and patient() == []


@pytest.mark.django_db
def test_the_sdk_is_imported_beside_the_event_loop(client, monkeypatch):
    """On it, the first agent's call held up every other request for a second."""
    threads = []

    def imported(name: str):
        threads.append(threading.current_thread().name)
        return importlib.import_module(name)

    monkeypatch.setattr(views, "importlib", types.SimpleNamespace(import_module=imported))
    assert post(client, "/mcp", LISTING).status_code == 200
    assert [name.split("_")[0] for name in threads] == ["asyncio"], threads


@pytest.mark.asyncio
async def test_one_address_never_takes_every_place_of_those_who_wait():
    """Tokens are free to make, so those of one address count together."""
    address = [Call(Caller("10.0.0.1", "", OwnerToken(id=f"t{n}")), "") for n in range(calls.ALL_WAITS)]
    async with AsyncExitStack() as waiting:
        places = 0
        for call in address:
            with contextlib.suppress(Refused):
                await waiting.enter_async_context(calls.waits(call))
                places += 1
        assert places == calls.ADDRESS_WAITS < calls.ALL_WAITS
        other = Call(Caller("10.0.0.2", ""), "")
        for _ in range(calls.WAITS):
            await waiting.enter_async_context(calls.waits(other))
        with pytest.raises(Refused):
            await waiting.enter_async_context(calls.waits(other))
    async with calls.waits(address[0]):
        pass
