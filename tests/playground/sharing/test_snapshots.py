"""Snapshots: named by their content, without what their owner withholds, and kept until their owner deletes them."""

import json
from datetime import timedelta

import pytest
from django.utils import timezone

from engine import record as records
from engine.session.recording import blob_names
from playground import recordings, retention
from playground.access import tokens
from playground.models import Blob, Note, Session, Snapshot
from playground.sharing import cards

pytestmark = pytest.mark.django_db
SECRET = "Yx" * 16
CONTROL = {"X-Control-Token": SECRET}


@pytest.fixture
def session():
    """A recorded session as if a visitor had run it."""
    loaded = Session.objects.get(id=recordings.load(recordings.FOLDER / "agent_swiglu.jsonl"))
    Session.objects.filter(id=loaded.id).update(recorded=False, provenance={}, control_hash=tokens.digest(SECRET))
    return Session.objects.get(id=loaded.id)


def send(client, method, path, body=None, headers=CONTROL):
    return client.generic(method, path, json.dumps(body or {}), content_type="application/json", headers=headers)


def take(client, session, **asked):
    reply = send(client, "POST", f"/api/sessions/{session.id}/snapshots", asked)
    assert reply.status_code == 201, reply.content
    return reply.json()


def test_the_same_content_has_the_same_name(client, session):
    first, second = take(client, session), take(client, session)
    assert first["id"] == second["id"] == records.link_of(first["record"]) and Snapshot.objects.count() == 1
    assert send(client, "PUT", f"/api/sessions/{session.id}/notes/1", {"text": " a note "}).json()["text"] == "a note"
    third = take(client, session)
    assert third["id"] != first["id"], "a note is part of the content"
    assert client.get(f"/api/sessions/{third['id']}/notes").json() == {"notes": {"1": "a note"}}
    listed = send(client, "GET", f"/api/sessions/{session.id}/snapshots").json()["snapshots"]
    assert {row["id"] for row in listed} == {first["id"], third["id"]}


def test_a_snapshot_is_a_page_like_any_other(client, session):
    name = take(client, session)["id"]
    whole = client.get(f"/api/sessions/{session.id}/events?limit=2000").json()["events"]
    assert client.get(f"/api/sessions/{name}/events?limit=2000").json()["events"] == whole
    assert client.get(f"/s/{name}").status_code == client.get(f"/s/{name}/fork").status_code == 200
    copy = Session.objects.get(id=name)
    assert copy.summary == session.summary and copy.control_hash == "" and copy.owner is None
    assert SECRET not in client.get(f"/s/{name}").content.decode() and session.id not in str(copy.provenance)


def test_a_record_from_a_link_has_every_hash(client, session):
    name = take(client, session)["id"]
    for one in (name, session.id):
        record = client.get(f"/api/sessions/{one}/record").json()
        assert records.faults(record) == []
    assert records.link_of(client.get(f"/api/sessions/{name}/record").json()["id"]) == name


@pytest.mark.parametrize("transcript", [True, False])
def test_results_without_the_source_hold_no_text_of_it(client, session, transcript):
    send(client, "PUT", f"/api/sessions/{session.id}/notes/1", {"text": "about the source"})
    snapshot = take(client, session, source=False, transcript=transcript)
    assert snapshot["shared"] == {"source": False, "transcript": False}
    name, copy = snapshot["id"], Session.objects.get(id=snapshot["id"])
    assert copy.spec["source"] == copy.spec["title"] == "" and copy.title == "Results without their source"
    texts = {b.sha256 for b in copy.blobs.all()}
    record = client.get(f"/api/sessions/{name}/record").json()
    assert records.faults(record) == [] and texts == set(record["texts"]) == {record["fields"]["bound"]["report"]}
    assert record["fields"]["notes"] == {}
    events = client.get(f"/api/sessions/{name}/events?limit=2000").json()["events"]
    named = blob_names([e["data"] for e in events]) - texts
    assert named and all(client.get(f"/api/sessions/{name}/blobs/{n}").status_code == 404 for n in named)
    for path in ("fork", "fork?trial=1", "export", "export?trial=1"):
        assert client.get(f"/s/{name}/{path}").status_code == 409
    figures = client.get(f"/api/figures/{name}").json()
    assert figures["roofline"]["figure"]["data"] and figures["history"]
    assert copy.summary["best"] == session.summary["best"]


def test_an_agent_reads_no_withheld_text(client, session):
    name = take(client, session, source=False)["id"]
    wanted = [b.text for b in Blob.objects.filter(sessions=session) if "def forward" in b.text or "program " in b.text]
    assert wanted
    for tool, more in (("best", {}), ("status", {})):
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call"}
        body["params"] = {"name": tool, "arguments": {"session": name, **more}}
        reply = send(client, "POST", "/mcp", body, {}).content.decode()
        assert not any(json.dumps(text)[1:200] in reply for text in wanted)


def test_retention_leaves_what_is_pinned_and_every_snapshot(client, session):
    name = take(client, session)["id"]
    Session.objects.update(ended=timezone.now() - timedelta(days=400))
    assert send(client, "POST", f"/api/sessions/{session.id}/pin", {"pinned": True}).json() == {"pinned": True}
    assert retention.sweep()[0] == 0
    send(client, "POST", f"/api/sessions/{session.id}/pin", {"pinned": False})
    assert retention.sweep()[0] == 1
    assert list(Session.objects.values_list("id", flat=True)) == [name]
    assert client.get(f"/api/sessions/{name}/record").status_code == 200, "its texts stay too"
    assert send(client, "DELETE", f"/api/snapshots/{name}", headers={}).status_code == 403
    assert send(client, "DELETE", f"/api/snapshots/{name}").status_code == 204
    assert not Session.objects.exists() and not Snapshot.objects.exists() and not Note.objects.exists()


def test_a_run_is_attached_and_counted(client, session):
    name = take(client, session)["id"]
    path = f"/api/snapshots/{name}/reproductions"
    run = {"when": "2026-11-25", "device": "cuda", "verdict": "reproduced", "trials": [{"trial": 1}]}
    card = client.get(f"/card/{name}.png")["ETag"]
    assert send(client, "POST", path, run).json() == {"reproduced": 1, "runs": 1}
    assert send(client, "POST", path, run | {"verdict": "not comparable"}).json() == {"reproduced": 1, "runs": 1}
    assert send(client, "POST", path, run | {"verdict": "not reproduced"}).json() == {"reproduced": 1, "runs": 2}
    assert send(client, "POST", path, run | {"trials": [{"x": "y" * 70_000}]}).status_code == 413
    page = client.get(f"/s/{name}").content.decode()
    assert "1 of 2 independent runs reproduced it" in page and "<dd>1 of 2</dd>" in page
    record = client.get(f"/api/sessions/{name}/record").json()
    assert len(record["reproductions"]) == 3 and records.faults(record) == [] and records.link_of(record["id"]) == name
    assert client.get(f"/card/{name}.png")["ETag"] != card


def test_a_note_is_bounded_and_belongs_to_a_trial(client, session):
    path = f"/api/sessions/{session.id}/notes"
    assert send(client, "PUT", f"{path}/999", {"text": "x"}).status_code == 404
    assert send(client, "PUT", f"{path}/1", {"text": "x" * 2001}).status_code == 413
    assert send(client, "PUT", f"{path}/1", {"text": "x"}).status_code == 200
    unseen = "\u202eone\x1b[31m\r\ntwo\u200b"  # a note is read in terminals, too
    assert send(client, "PUT", f"{path}/1", {"text": unseen}).json() == {"trial": 1, "text": "one [31m\ntwo"}
    assert client.get(path).json() == {"notes": {"1": "one [31m\ntwo"}}
    assert send(client, "PUT", f"{path}/1", {"text": " "}).json() == {"trial": 1, "text": ""}
    assert client.get(path).json() == {"notes": {}}


# ---- cards and frames ----


def test_the_card_is_a_picture_of_the_result(client, session):
    page = client.get(f"/s/{session.id}").content.decode()
    assert f'property="og:image" content="http://testserver/card/{session.id}.png"' in page
    assert 'property="og:description" content="' in page and cards.sentence(session) in page
    reply = client.get(f"/card/{session.id}.png")
    assert reply["Content-Type"] == "image/png" and reply.content.startswith(b"\x89PNG")
    assert int.from_bytes(reply.content[16:20], "big") == 1200 and len(reply.content) < 100_000
    assert client.get(f"/card/{session.id}.png", HTTP_IF_NONE_MATCH=reply["ETag"]).status_code == 304
    empty = Session.objects.create(title="μ × 漢 " * 40, spec={})
    assert client.get(f"/card/{empty.id}.png").content.startswith(b"\x89PNG")
    assert "No program is faster than PyTorch yet" in client.get(f"/s/{empty.id}").content.decode()


def test_an_embedded_pane_may_be_framed_and_no_other_page(client, session):
    framed = client.get(f"/embed/{session.id}?pane=roofline")
    policy = framed["Content-Security-Policy"]
    assert "frame-ancestors *" in policy and "form-action 'none'" in policy and "script-src 'self'" in policy
    assert "X-Frame-Options" not in framed and session.spec["source"][:40] not in framed.content.decode()
    for path in (f"/s/{session.id}", f"/c/{SECRET}", "/", "/gallery", "/mine", f"/embed/{session.id}?pane=x"):
        reply = client.get(path)
        assert "frame-ancestors 'none'" in reply["Content-Security-Policy"], path
        assert reply["X-Frame-Options"] == "DENY", path


def test_what_draws_cards_may_read_a_session_and_nothing_secret(client):
    robots = client.get("/robots.txt").content.decode()
    first, others = robots.split("\n\n")
    assert "Twitterbot" in first and "Disallow: /s/" not in first and "Disallow: /c/" in first
    assert others.startswith("User-agent: *\nDisallow: /s/")
