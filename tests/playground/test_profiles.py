"""The profile of a trial over the API: the owner's command, its refusals, and what a reader gets."""

import time

import pytest

from engine.session import events
from playground.live import log
from playground.models import Command, Session
from tests.playground import script

pytestmark = pytest.mark.django_db
KERNEL = {"kernel": "k", "registers": 168, "shared_bytes": 49152, "spill_bytes": 0}


@pytest.fixture
def session(client):
    return client.post("/api/sessions", {"source": "class Model: ..."}, content_type="application/json").json()


def write(session, *rows):
    """Append events, each alone or with its texts, as an engine does."""
    row = Session.objects.get(id=session["id"])
    pairs = [one if isinstance(one, tuple) else (one, {}) for one in rows]
    log.write(row, [(event, texts, time.time()) for event, texts in pairs])
    row.save()


def trials(session):
    """The log up to the end of its trials: 1 and 2 have a time, 3 has failed, 4 runs."""
    rows = list(script.session(trials=2))[:-1]
    compiled = events.TrialCompiled(2, "cute", "machine code", 1.0, resources=[KERNEL])
    rows.insert(-1, (compiled, {}))
    program, texts = script.blob("program p3")
    rows += [(events.TrialProposed(n, "f16", program, "cute", "a tile", "why"), texts) for n in (3, 4)]
    rows.append((events.TrialFailed(3, "validate", "wrong_result", "the result is wrong"), {}))
    write(session, *rows)


def ask(client, session, data, token=None):
    body = {"kind": "profile", "data": data, "control_token": token or session["control_token"]}
    return client.post(f"/api/sessions/{session['id']}/commands", body, content_type="application/json")


def read(client, session, trial):
    return client.get(f"/api/sessions/{session['id']}/trials/{trial}/profile")


@pytest.mark.parametrize("trial", [1, 4])
def test_a_request_reaches_the_engine(client, session, trial):
    trials(session)
    assert ask(client, session, {"trial": trial}).json() == {"kind": "profile", "ended": False}
    assert (Command.objects.get().kind, Command.objects.get().data) == ("profile", {"trial": trial})


def test_a_paused_session_says_that_the_profile_waits(client, session):
    trials(session)
    write(session, events.Controlled("pause"))
    assert ask(client, session, {"trial": 1}).json()["waits"] == "paused"


@pytest.mark.parametrize(
    ("data", "status", "words"),
    [
        ({}, 422, "A profile has one field, trial"),
        ({"trial": "1"}, 422, "A profile has one field, trial"),
        ({"trial": True}, 422, "A profile has one field, trial"),
        ({"trial": 1, "program": "x"}, 422, "A profile has one field, trial"),
        ({"trial": 9}, 404, "This session has no trial 9."),
        ({"trial": 3}, 409, "Trial 3 has no time"),
    ],
)
def test_a_request_that_cannot_be_met_is_refused_with_the_way_out(client, session, data, status, words):
    trials(session)
    reply = ask(client, session, data)
    assert (reply.status_code, reply.json()["fix"] != "") == (status, True), reply.content
    assert reply.json()["error"].startswith(words) and not Command.objects.exists()


def test_who_only_watches_asks_for_nothing(client, session):
    trials(session)
    assert ask(client, session, {"trial": 1}, token="x" * 32).status_code == 403
    refused = read(client, session, 1)
    assert refused.status_code == 409 and "command `profile`" in refused.json()["fix"]


def test_a_request_is_refused_while_the_profile_is_being_made_and_its_answer_is_read_by_everybody(client, session):
    trials(session)
    write(session, events.Controlled("profile", {"trial": 1}))
    assert "is being made" in ask(client, session, {"trial": 1}).json()["error"]
    assert read(client, session, 1).json()["state"] == "asked"
    name, texts = script.blob("memory 91% of peak")
    write(session, (events.TrialProfiled(1, 1, "profiler", name), texts))
    answer = read(client, session, 1).json()
    assert (answer["trial"], answer["state"], answer["source"]) == (1, "ready", "profiler")
    assert answer["text"] == "memory 91% of peak" and answer["t"] > 0
    assert ask(client, session, {"trial": 1}).status_code == 202  # again, if its owner wants


def test_a_refused_profile_says_why(client, session):
    trials(session)
    write(session, events.Controlled("profile", {"trial": 1}))
    write(session, events.TrialProfiled(1, 1, refusal="broken", reason="The counters are locked."))
    answer = read(client, session, 1).json()
    assert (answer["state"], answer["refusal"], answer["reason"]) == ("refused", "broken", "The counters are locked.")


def test_of_a_session_that_ended_the_log_gives_the_profile_and_its_owner_is_sent_there(client, session):
    trials(session)
    write(session, events.Controlled("profile", {"trial": 1}))
    write(session, events.TrialProfiled(1, 1, refusal="ended", reason="The session ended before."))
    write(session, events.SessionEnded("done", "over", {"f16": 2}, 3, 1.0))
    refused = ask(client, session, {"trial": 2})
    assert refused.status_code == 409 and "/trials/NUMBER/profile" in refused.json()["fix"]
    for trial in (1, 2):
        answer = read(client, session, trial).json()
        assert (answer["state"], answer["source"]) == ("ready", "model")
        assert answer["text"].startswith(f"Trial {trial}, class f16: predicted ")
    assert "- k: 168 registers a thread, 49152 bytes of shared memory, no spills" in answer["text"]
    assert [read(client, session, n).status_code for n in (3, 4, 9)] == [409, 409, 404]
